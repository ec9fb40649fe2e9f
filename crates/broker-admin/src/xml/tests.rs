use proptest::prelude::*;

use super::*;

fn refused(body: &[u8]) -> String {
    with_document(body, |_| ()).unwrap_err().to_string()
}

#[test]
fn what_is_no_plain_document_is_refused() {
    let bomb = b"<!DOCTYPE a [<!ENTITY b \"x\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>";
    assert!(refused(bomb).contains("DTD"), "{}", refused(bomb));
    assert_eq!(refused(b"\xff<a/>"), "the body is not UTF-8");
    assert!(refused(b"").starts_with("the body cannot be read as XML"));
    assert!(refused(b"<a><b></a></b>").starts_with("the body cannot be read as XML"));
    assert!(refused(b"<a>&undefined;</a>").starts_with("the body cannot be read as XML"));
    let deep = |levels: usize| "<a>".repeat(levels) + &"</a>".repeat(levels);
    assert!(with_document(deep(32).as_bytes(), |_| ()).is_ok());
    assert_eq!(refused(deep(33).as_bytes()), "the body nests elements more than 32 deep");
    assert_eq!(refused("<a>".repeat(100_000).as_bytes()), "the body nests elements more than 32 deep");
    let wide = format!("<a>{}</a>", "<b/>".repeat(30_000));
    assert!(refused(wide.as_bytes()).starts_with("the body cannot be read as XML"));
}

#[test]
fn attributes_are_bounded_in_each_element_and_in_all() {
    const SAID: &str = "the body has more than 32 attributes in one element, or 10000 in all";
    let attributes = |count: usize, quote: char| {
        let one = |number: usize| format!(" a{number}={quote}>=='{quote}").replace("''", "'");
        (0..count).map(one).collect::<Vec<_>>().concat()
    };
    let fits = |text: String| with_document(text.as_bytes(), |_| ()).is_ok();
    assert!(fits(format!("<x{}/>", attributes(32, '"'))));
    for quote in ['"', '\''] {
        for count in [33, 50_000] {
            assert_eq!(
                refused(format!("<x{}/>", attributes(count, quote)).as_bytes()),
                SAID,
                "{quote} {count}"
            );
        }
    }
    // What stands in a text is no attribute, however it looks.
    assert!(fits(format!("<x>{}</x>", "a='b' ".repeat(100))));
    let children = |count: usize| format!("<x>{}</x>", "<a b='c'/>".repeat(count));
    assert!(fits(children(9_999)));
    assert_eq!(refused(children(10_001).as_bytes()), SAID);
}

#[test]
fn elements_are_counted_whatever_stands_between_and_inside_their_tags() {
    // Each begins one element.
    let cases = [
        "<a b=\"/>\">",
        "<a b='/>'>",
        "<a b=\"'/>\">",
        "<a b='\"/>'>",
        "<a b='>' c=\">\">",
        "<a xmlns=\"/>\">",
        "<a b = '/>' >",
        "<a>/>",
        "<a></a ><a>",
        "<a><a b='/'/>",
        "<a><a b='>'/>",
        "<a><!--</a>-->",
        "<a><!--></a>-->",
        "<a><![CDATA[</a>]]>",
        "<a><![CDATA[]]</a>>]]>",
        "<a><?b </a>?>",
        "<a><!--\"--><!--'-->",
        "<a><!--<a>--><![CDATA[<a>]]><?b <a>?>",
    ];
    for begin in cases {
        let nested = |levels: usize| format!("<r>{}{}</r>", begin.repeat(levels), "</a>".repeat(levels));
        let read = with_document(nested(31).as_bytes(), |document| {
            document.descendants().map(|node| node.ancestors().filter(Node::is_element).count()).max()
        });
        assert_eq!(read.map(|deepest| deepest >= Some(32)), Ok(true), "{begin}");
        assert_eq!(refused(nested(32).as_bytes()), "the body nests elements more than 32 deep", "{begin}");
        let many = refused(nested(10_000).as_bytes());
        assert_eq!(many, "the body nests elements more than 32 deep", "{begin}");
    }
    // Each is none, or is whole.
    for inside in
        ["<a b='/>'/>", "<!--<a>-->", "<![CDATA[<a>]]>", "<?b <a>?>", "<a b=\">\"></a>", "<a >></a >"]
    {
        let beside = format!("<r>{}</r>", inside.repeat(100));
        assert_eq!(with_document(beside.as_bytes(), |_| ()), Ok(()), "{inside}");
    }
    for unfinished in
        ["<r", "<r a='>", "<r><!-- ", "<r><![CDATA[ ", "<r><? ", "<r><!a>", "<r></", "</a></a><r>"]
    {
        let said = refused(unfinished.as_bytes());
        assert!(said.starts_with("the body cannot be read as XML"), "{unfinished}: {said}");
    }
}

/// So many declarations of namespaces.
fn namespaces(count: usize) -> String {
    (0..count).map(|number| format!(" xmlns:n{number}='{number}'")).collect::<Vec<_>>().concat()
}

#[test]
fn namespaces_around_an_element_are_bounded() {
    const SAID: &str =
        "the body has more than 32 namespaces declared around one element, or one of more than 256 bytes";
    let siblings = "<b xmlns:p='u'/><b xmlns:p='u'><c xmlns='v'/></b>".repeat(1_000);
    let fits = [
        format!("<a{}/>", namespaces(32)),
        format!("<a{}><b{}/></a>", namespaces(16), namespaces(16)),
        // Those of elements that have ended count no more.
        format!("<a{}>{siblings}</a>", namespaces(30)),
        format!("<a{}><b xmlns:p = '>' \n c='xmlns:q='/></a>", namespaces(31)),
        format!(
            "<a{} b='xmlns:c=' c=\"xmlns=''\">xmlns='d'<!-- <a xmlns='e'> --><b xmlns='f' xmlns:g='h'/></a>",
            namespaces(30)
        ),
        format!("<a xmlns:p='{}'/>", "u".repeat(249)),
        format!("<a {}='u'/>", "n".repeat(10_000)),
    ];
    for text in fits {
        assert_eq!(with_document(text.as_bytes(), |_| ()), Ok(()), "{text}");
    }
    let level = format!("<a{}>", namespaces(32));
    let refusals = [
        format!("<a{}><b xmlns='u'/></a>", namespaces(32)),
        format!("<a{}><b xmlns='u'></b></a>", namespaces(32)),
        format!("<a{}><b xmlns:p = \"u\"/></a>", namespaces(32)),
        format!("<a{}><b\n\txmlns:p\n=\n'u'/></a>", namespaces(32)),
        // The parser takes it for the namespace without a prefix.
        format!("<a{}><b p:xmlns='u'/></a>", namespaces(32)),
        format!("<a{} b='/>'><b c=\">\" xmlns:p='u' xmlns='v'/></a>", namespaces(31)),
        format!("{}{siblings}{}", level.repeat(31), "</a>".repeat(31)),
        format!("<a xmlns:p='{}'/>", "u".repeat(250)),
        format!("<a xmlns:{}='u'/>", "p".repeat(250)),
    ];
    for text in refusals {
        assert_eq!(refused(text.as_bytes()), SAID, "{text}");
    }
}

#[test]
fn documents_of_clients_have_few_namespaces() {
    let value = "<KeyValueOfstringanyType><Key>k</Key><Value xmlns:d6p1='http://www.w3.org/2001/XMLSchema' \
         i:type='d6p1:string'>>=/></Value></KeyValueOfstringanyType>";
    let body = format!(
        "<?xml version='1.0' encoding='utf-8'?><!-- > --><entry xmlns='{ATOM}' xmlns:a='{ATOM}' \
         xmlns:m='http://schemas.microsoft.com/ado/2007/08/dataservices/metadata'><content type='application/xml'>\
         <SubscriptionDescription xmlns='{SERVICE_BUS}' xmlns:i='{INSTANCE}'><DefaultRuleDescription \
         xmlns='{SERVICE_BUS}' xmlns:i='{INSTANCE}' xmlns:x='http://www.w3.org/2001/XMLSchema'>\
         <Filter i:type='CorrelationFilter'><Properties>{}</Properties></Filter></DefaultRuleDescription>\
         </SubscriptionDescription></content></entry>",
        value.repeat(1_000)
    );
    assert_eq!(with_document(body.as_bytes(), |_| ()), Ok(()));
}

#[test]
fn prefixes_and_a_byte_order_mark_do_not_matter() {
    let bodies = [
        format!("<D xmlns=\"{SERVICE_BUS}\"><A> x </A></D>"),
        format!("\u{feff}<p:D xmlns:p=\"{SERVICE_BUS}\"><p:A>x</p:A></p:D>"),
        format!("<?xml version=\"1.0\"?><D xmlns=\"{SERVICE_BUS}\"><Z/><A>x</A></D>"),
    ];
    for body in bodies {
        let read = with_document(body.as_bytes(), |document| {
            text_of(document.root_element(), "A").map(str::to_owned)
        });
        assert_eq!(read, Ok(Some("x".into())), "{body}");
    }
    let other = "<D><A>x</A></D>";
    let read = with_document(other.as_bytes(), |document| text_of(document.root_element(), "A").is_some());
    assert_eq!(read, Ok(false));
}

#[test]
fn numbers_are_written_with_the_digits_that_are_asked_for() {
    let cases: [(u64, usize, &str); 8] = [
        (0, 1, "0"),
        (7, 1, "7"),
        (7, 2, "07"),
        (0, 3, "000"),
        (120, 2, "120"),
        (9_999, 4, "9999"),
        (u64::MAX, 1, "18446744073709551615"),
        (1, 20, "00000000000000000001"),
    ];
    for (value, least, expected) in cases {
        let mut out = String::new();
        digits(&mut out, value, least);
        assert_eq!(out, expected);
    }
}

proptest! {
    #[test]
    fn a_number_is_read_back(value: u64) {
        let mut out = String::new();
        number(&mut out, value);
        prop_assert_eq!(out, value.to_string());
    }

    #[test]
    fn an_escaped_text_is_read_back(text in "[ -~äß😀\t\n\r]{0,40}") {
        let mut out = String::new();
        element(&mut out, "a", &text);
        let read = with_document(out.as_bytes(), |document| document.root_element().text().unwrap_or("").to_owned());
        prop_assert_eq!(read, Ok(text));
    }

    #[test]
    fn no_bytes_panic(body: Vec<u8>, text in "[<>/!a-c&; \"=?]{0,60}") {
        drop(with_document(&body, |_| ()));
        drop(with_document(text.as_bytes(), |_| ()));
    }
}
