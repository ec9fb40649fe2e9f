use tokio::io::AsyncReadExt as _;

use super::*;

async fn read(stream: &mut ReadLimit<&[u8]>, bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    let count = stream.read(&mut buffer).await?;
    buffer.truncate(count);
    Ok(buffer)
}

#[tokio::test]
async fn no_more_is_read_than_the_limit_and_one_read() {
    let mut stream = ReadLimit::new(&b"0123456789"[..], 4);
    assert_eq!(read(&mut stream, 3).await.unwrap(), b"012");
    // One byte is left: it is read, and what comes with it.
    assert_eq!(read(&mut stream, 3).await.unwrap(), b"345");
    assert_eq!(read(&mut stream, 3).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(read(&mut stream, 3).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn a_lifted_limit_bounds_nothing() {
    let mut stream = ReadLimit::new(&b"0123456789"[..], 4);
    assert_eq!(read(&mut stream, 3).await.unwrap(), b"012");
    stream.lift();
    assert_eq!(read(&mut stream, 100).await.unwrap(), b"3456789");
    assert_eq!(read(&mut stream, 100).await.unwrap(), b"");
}
