//! Names of the composites and of their fields, for errors.
//!
//! Invariant: a [`DecodeError`] names the innermost composite and field it is about.

use std::fmt;

use bytes::{BufMut, BytesMut};

use crate::guard::GuardError;
use crate::raw::RawMap;
use crate::types::{self, Descriptor, FieldReader, Malformed, Reader};

/// Descriptor, name and fields of a composite type.
#[derive(Debug)]
pub(crate) struct Composite {
    pub(crate) code: u8,
    /// The specification's name, as in `amqp:<name>:list`.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [&'static str],
}

impl Composite {
    /// Reads the fields of the list at the front of `reader`; the descriptor is already read.
    pub(crate) fn decode_list<'a, T>(
        &'static self,
        reader: &mut Reader<'a>,
        read: impl FnOnce(&mut FieldReader<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.decode_whole_list(reader, |fields| {
            let value = read(fields)?;
            fields.finish()?;
            Ok(value)
        })
    }

    /// Like [`Composite::decode_list`], but `read` has to finish the list itself: on the hot path
    /// the value is put together last, so that it is written once and never moved.
    #[inline]
    pub(crate) fn decode_whole_list<'a, T>(
        &'static self,
        reader: &mut Reader<'a>,
        read: impl FnOnce(&mut FieldReader<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let mut fields = match reader.list() {
            Ok(fields) => fields,
            Err(problem) => return Err(DecodeError::from(problem).at(self, 0)),
        };
        match read(&mut fields) {
            Ok(value) => Ok(value),
            Err(error) => Err(error.at(self, fields.index())),
        }
    }

    /// Whether `descriptor` is this type's, as a number or as a name.
    pub(crate) fn is(&self, descriptor: Descriptor<'_>) -> bool {
        match descriptor {
            Descriptor::Code(code) => code == u64::from(self.code),
            Descriptor::Name(name) => {
                name.strip_prefix("amqp:").and_then(|rest| rest.strip_suffix(":list")) == Some(self.name)
            }
        }
    }

    /// Writes descriptor and list; `fields` must write all of the composite's fields.
    #[inline]
    pub(crate) fn encode(&'static self, out: &mut BytesMut, fields: impl FnOnce(&mut BytesMut)) {
        out.put_slice(&[types::code::DESCRIBED, types::code::SMALL_ULONG, self.code]);
        types::write_list(out, self.fields.len(), fields);
    }
}

/// The nine performatives.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum PerformativeKind {
    Open,
    Begin,
    Attach,
    Flow,
    Transfer,
    Disposition,
    Detach,
    End,
    Close,
}

impl PerformativeKind {
    const ALL: [Self; 9] = [
        Self::Open,
        Self::Begin,
        Self::Attach,
        Self::Flow,
        Self::Transfer,
        Self::Disposition,
        Self::Detach,
        Self::End,
        Self::Close,
    ];

    /// The kind that a descriptor stands for.
    #[inline]
    pub(crate) fn of(descriptor: Descriptor<'_>) -> Option<Self> {
        Some(match descriptor {
            Descriptor::Code(0x10) => Self::Open,
            Descriptor::Code(0x11) => Self::Begin,
            Descriptor::Code(0x12) => Self::Attach,
            Descriptor::Code(0x13) => Self::Flow,
            Descriptor::Code(0x14) => Self::Transfer,
            Descriptor::Code(0x15) => Self::Disposition,
            Descriptor::Code(0x16) => Self::Detach,
            Descriptor::Code(0x17) => Self::End,
            Descriptor::Code(0x18) => Self::Close,
            Descriptor::Code(_) => return None,
            Descriptor::Name(name) => {
                let name = name.strip_prefix("amqp:")?.strip_suffix(":list")?;
                return Self::ALL.into_iter().find(|kind| kind.name() == name);
            }
        })
    }

    /// The specification's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Begin => "begin",
            Self::Attach => "attach",
            Self::Flow => "flow",
            Self::Transfer => "transfer",
            Self::Disposition => "disposition",
            Self::Detach => "detach",
            Self::End => "end",
            Self::Close => "close",
        }
    }
}

impl fmt::Display for PerformativeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Malformed composite. The peer is to blame: `amqp:decode-error`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DecodeError {
    /// The performative it happened in; `None` when not even that could be read, and for SASL.
    pub performative: Option<PerformativeKind>,
    /// The innermost composite it happened in; empty when none had been entered.
    pub composite: &'static str,
    /// The field of that composite; empty when it is about the composite as a whole.
    pub field: &'static str,
    pub problem: Malformed,
}

impl DecodeError {
    pub(crate) fn in_performative(mut self, kind: PerformativeKind) -> Self {
        self.performative = Some(kind);
        self
    }

    /// Says where it happened, unless an inner composite has already said so.
    #[cold]
    fn at(mut self, composite: &'static Composite, index: u32) -> Self {
        if self.composite.is_empty() {
            self.composite = composite.name;
            let field = index.checked_sub(1).and_then(|i| composite.fields.get(i as usize));
            let whole = matches!(self.problem, Malformed::TooManyFields(_) | Malformed::SizeMismatch);
            self.field = field.filter(|_| !whole).copied().unwrap_or("");
        }
        self
    }
}

impl From<Malformed> for DecodeError {
    #[inline]
    fn from(problem: Malformed) -> Self {
        Self { performative: None, composite: "", field: "", problem }
    }
}

impl From<GuardError> for DecodeError {
    fn from(error: GuardError) -> Self {
        error.problem.into()
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.performative, self.composite, self.field) {
            (_, "", _) => {}
            (Some(kind), composite, field) if kind.name() != composite => {
                write!(f, "{kind}: {composite}{}{field}: ", dot(field))?;
            }
            (_, composite, field) => write!(f, "{composite}{}{field}: ", dot(field))?,
        }
        self.problem.fmt(f)
    }
}

const fn dot(field: &str) -> &'static str {
    if field.is_empty() { "" } else { "." }
}

impl std::error::Error for DecodeError {}

/// Asks for a mandatory field to be there.
pub(crate) trait Mandatory<T> {
    fn mandatory(self) -> Result<T, Malformed>;
}

impl<T> Mandatory<T> for Result<Option<T>, Malformed> {
    #[inline]
    fn mandatory(self) -> Result<T, Malformed> {
        self?.ok_or(Malformed::Missing)
    }
}

/// Reads a map field, past the guard and into bytes of its own.
#[inline]
pub(crate) fn read_map(fields: &mut FieldReader<'_>) -> Result<Option<RawMap>, Malformed> {
    if fields.skip_null() {
        return Ok(None);
    }
    match fields.out_of_line(FieldReader::rare_value)? {
        None => Ok(None),
        Some(bytes) => guarded_map(bytes).map(Some),
    }
}

#[cold]
fn guarded_map(bytes: &[u8]) -> Result<RawMap, Malformed> {
    RawMap::copy_from_slice(bytes).map_err(|error| error.problem)
}

/// Writes a map field.
#[inline]
pub(crate) fn write_map(out: &mut BytesMut, map: Option<&RawMap>) {
    types::write_opt(out, map, |out, map| out.extend_from_slice(map.bytes()));
}
