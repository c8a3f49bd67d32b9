//! Digests over the notifications socket.

use super::client::{Client, OTHER, Reply, STANDARD, TestServer, VOID};
use crate::thrift::NotificationSocket;
use crate::thrift::value::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use thrift::protocol::TType;

/// A subscriber of the notifications socket, without nanomsg.
trait SubscriberStream: Read + Write {}
impl<S: Read + Write> SubscriberStream for S {}

#[test]
fn digests_are_published_to_subscribers() {
    const TIMEOUT: Option<Duration> = Some(Duration::from_millis(100));
    let path = std::env::temp_dir().join(format!("weir-notifications-{}.ipc", std::process::id()));
    let ipc = format!("ipc://{}", path.display());
    for address in [ipc.as_str(), "tcp://127.0.0.1:0"] {
        let server = TestServer::with_notifications(address);
        let mut client = server.connect();
        let Value::Struct(info) = client_info(&mut client) else { panic!() };
        let published = info.text(3).unwrap();
        let kind: &[u8] = if address == ipc { &[1] } else { &[] };
        let mut stream: Box<dyn SubscriberStream> = match published.strip_prefix("tcp://") {
            Some(address) => {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(TIMEOUT).unwrap();
                Box::new(stream)
            }
            None => {
                let stream = UnixStream::connect(&path).unwrap();
                stream.set_read_timeout(TIMEOUT).unwrap();
                Box::new(stream)
            }
        };
        stream.write_all(&[0, b'S', b'P', 0, 0, 33, 0, 0]).unwrap();
        let mut header = [0; 8];
        read_all(&mut *stream, &mut header).then_some(()).expect("a header");
        assert_eq!(header, [0, b'S', b'P', 0, 0, 32, 0, 0]);
        // Digests from before the subscription are lost, so they are repeated until the first one arrives.
        let mut message = vec![0; kind.len() + 8 + 32 + 8];
        let mut source = 0;
        loop {
            source += 1;
            assert!(source < 200, "no digest arrives");
            send_from(&server, source);
            if read_all(&mut *stream, &mut message) {
                break;
            }
        }
        let (length, content) = message.split_at(kind.len() + 8);
        assert_eq!(length, [kind, &40u64.to_be_bytes()].concat());
        assert_eq!((&content[..4], &content[4..12]), (&b"LEA|"[..], &3u64.to_ne_bytes()[..]));
        let list = 1i32;
        assert_eq!(content[16..20], list.to_ne_bytes());
        assert_eq!(content[32..], [0, 0, 0, 0, 0, source, 0, 255], "source and port");
        let buffer = Value::I64(i64::from_ne_bytes(content[20..28].try_into().unwrap()));
        // The same digest again only after an acknowledgement.
        send_from(&server, source);
        assert!(!read_all(&mut *stream, &mut message));
        let list = Value::I32(list);
        assert_eq!(client.standard("bm_learning_ack_buffer", [list.clone(), buffer]), VOID);
        send_from(&server, source);
        assert!((0..50).any(|_| read_all(&mut *stream, &mut message)));
        // Two per buffer.
        assert_eq!(client.standard("bm_learning_set_buffer_size", [list.clone(), Value::I32(2)]), VOID);
        assert_eq!(client.standard("bm_learning_set_timeout", [list.clone(), Value::I32(0)]), VOID);
        send_from(&server, 201);
        assert!(!read_all(&mut *stream, &mut message));
        send_from(&server, 202);
        let mut message = vec![0; message.len() + 8];
        assert!((0..50).any(|_| read_all(&mut *stream, &mut message)));
        let samples = Value::List(TType::I32, vec![Value::I32(0), Value::I32(1), Value::I32(9)]);
        assert_eq!(client.standard("bm_learning_ack", [list, Value::I64(2), samples]), VOID);
        let unknown = client.standard("bm_learning_ack_buffer", [Value::I32(9), Value::I64(0)]);
        assert_eq!(unknown, Reply::Exception(1), "INVALID_LIST_ID");
        drop(server);
        assert!(
            (0..50).any(|_| matches!(stream.read(&mut [0; 8]), Ok(0))),
            "the stream ends with the server"
        );
    }
    assert!(!path.exists());

    // A socket in use is rejected, one without a process is replaced, and another file is left alone.
    let first = NotificationSocket::bind(&ipc).unwrap();
    assert_eq!(NotificationSocket::bind(&ipc).unwrap_err().kind(), ErrorKind::AddrInUse);
    drop(first);
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    drop(NotificationSocket::bind(&ipc).unwrap());
    std::fs::write(&path, "text").unwrap();
    assert_eq!(NotificationSocket::bind(&ipc).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    std::fs::remove_file(&path).unwrap();
    let error = NotificationSocket::bind("inproc://x").unwrap_err().to_string();
    assert!(error.contains("use ipc://PATH or tcp://ADDRESS:PORT"), "{error}");
}

#[test]
fn learning_needs_a_notifications_socket() {
    let server = TestServer::new(Some(OTHER));
    let mut client = server.connect();
    let Value::Struct(info) = client_info(&mut client) else { panic!() };
    assert_eq!(info.get(3), None);
    let ack = client.standard("bm_learning_ack_buffer", [Value::I32(1), Value::I64(0)]);
    assert_eq!(ack, Reply::Exception(3), "ERROR");
}

fn client_info(client: &mut Client) -> Value {
    match client.call(STANDARD, "bm_mgmt_get_info", []) {
        Reply::Result(Some(info)) => info,
        other => panic!("{other:?}"),
    }
}

/// Injects a packet from this source, which `OTHER` reports in a digest.
fn send_from(server: &TestServer, source: u8) {
    let mut frame = vec![0, 0x40];
    frame.extend([0, 0, 0, 0, 0, 99, 0, 0, 0, 0, 0, source, 0x88, 0xb5]);
    frame.extend([7; 46]);
    server.dataplane.handle().packet_out(frame).unwrap();
}

/// Fills the buffer. Returns `false` if nothing arrives in time.
fn read_all(stream: &mut dyn SubscriberStream, buffer: &mut [u8]) -> bool {
    let mut read = 0;
    while read < buffer.len() {
        match stream.read(&mut buffer[read..]) {
            Ok(0) => panic!("the stream has ended"),
            Ok(more) => read += more,
            Err(_) if read == 0 => return false,
            Err(_) => {}
        }
    }
    true
}
