//! A switch with a Thrift server, a client, and the values that it sends.

use crate::thrift::value::{Fields, Value};
use crate::thrift::{NotificationSocket, ThriftConfig, ThriftServer};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TInputProtocol, TMessageIdentifier, TMessageType,
    TOutputProtocol, TType,
};
use weir_switch::driver::{Dataplane, DataplaneConfig};
use weir_switch::{Program, Switch};

/// A program with an object of every kind.
pub(super) const ENTITIES: &str = include_str!("../../../../tests/it/control/entities.json");
pub(super) const OTHER: &str = include_str!("../../../../tests/programs/p4runtime.json");
pub(super) const STANDARD: &str = "standard";
pub(super) const PRE: &str = "simple_pre_lag";
pub(super) const TARGET: &str = "simple_switch";
/// Values of `ThriftConfig::allow_config_swap`.
pub(super) const SWAP_ALLOWED: bool = true;
pub(super) const SWAP_DISABLED: bool = false;
/// Whether the protocol writes and requires its version in the header of a message.
pub(super) const STRICT: bool = true;

/// A switch without interfaces, and its server.
pub(super) struct TestServer {
    pub(super) thrift: ThriftServer,
    pub(super) dataplane: Dataplane,
}

impl TestServer {
    pub(super) fn new(program: Option<&str>) -> TestServer {
        TestServer::build(program, SWAP_ALLOWED, None)
    }

    pub(super) fn without_swap(program: Option<&str>) -> TestServer {
        TestServer::build(program, SWAP_DISABLED, None)
    }

    /// A server that publishes digests. The CPU port is the one that `OTHER` expects.
    pub(super) fn with_notifications(socket: &str) -> TestServer {
        let socket = Arc::new(NotificationSocket::bind(socket).unwrap());
        TestServer::build(Some(OTHER), SWAP_ALLOWED, Some(socket))
    }

    pub(super) fn build(
        program: Option<&str>,
        allow_config_swap: bool,
        notifications: Option<Arc<NotificationSocket>>,
    ) -> TestServer {
        let cpu_port = notifications.is_some().then_some(255);
        let config = DataplaneConfig { priorities: 8, cpu_port, ..DataplaneConfig::default() };
        let switch = program.map(|json| {
            let program = Program::from_json(json).unwrap();
            Box::new(Switch::new(program, config.switch_config(), 1).unwrap())
        });
        let dataplane = Dataplane::start(config, switch, &[]).unwrap();
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let config = ThriftConfig {
            listen,
            device_id: 3,
            seed: 1,
            allow_config_swap,
            programs: Arc::default(),
            notifications,
        };
        TestServer { thrift: ThriftServer::start(dataplane.handle(), &config).unwrap(), dataplane }
    }

    pub(super) fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.thrift.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream, sequence: 0 }
    }
}

pub(super) struct Client {
    pub(super) stream: TcpStream,
    sequence: i32,
}

/// A reply: a result, the code of an exception that the IDL declares, or the text of a TApplicationException.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Result(Option<Value>),
    Exception(i32),
    Application(String),
}

impl Client {
    pub(super) fn call(
        &mut self,
        service: &str,
        method: &str,
        args: impl IntoIterator<Item = Value>,
    ) -> Reply {
        self.sequence += 1;
        self.stream.write_all(&message(service, method, self.sequence, args)).unwrap();
        let mut protocol = TBinaryInputProtocol::new(&mut self.stream, STRICT);
        let reply = protocol.read_message_begin().unwrap();
        assert_eq!((reply.name.as_str(), reply.sequence_number), (method, self.sequence));
        let fields = Fields::read(&mut protocol, 0).unwrap();
        match reply.message_type {
            TMessageType::Exception => Reply::Application(fields.text(1).unwrap()),
            _ => match fields.get(1) {
                Some(Value::Struct(exception)) => Reply::Exception(exception.i32(1).unwrap()),
                _ => Reply::Result(fields.get(0).cloned()),
            },
        }
    }

    /// A call of `standard` in context 0.
    pub(super) fn standard(&mut self, method: &str, args: impl IntoIterator<Item = Value>) -> Reply {
        self.call(STANDARD, method, [Value::I32(0)].into_iter().chain(args))
    }

    pub(super) fn result(&mut self, method: &str, args: impl IntoIterator<Item = Value>) -> Value {
        match self.standard(method, args) {
            Reply::Result(Some(value)) => value,
            other => panic!("{method}: {other:?}"),
        }
    }

    /// Returns whether the server has closed the connection.
    pub(super) fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 64]), Ok(0))
    }
}

pub(super) fn message(
    service: &str,
    method: &str,
    sequence: i32,
    args: impl IntoIterator<Item = Value>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut protocol = TBinaryOutputProtocol::new(&mut bytes, STRICT);
    let name = format!("{service}:{method}");
    protocol.write_message_begin(&TMessageIdentifier::new(name, TMessageType::Call, sequence)).unwrap();
    Fields((1..).zip(args).collect()).write(&mut protocol).unwrap();
    bytes
}

pub(super) fn data<const N: usize>(args: [&[u8]; N]) -> Value {
    Value::List(TType::String, args.map(|arg| Value::Binary(arg.to_vec())).into())
}

/// A list of `BmMatchParam`, each of a type with its fields.
pub(super) fn key<const N: usize>(params: [(i32, Vec<Value>); N]) -> Value {
    let param = |(ty, fields): (i32, Vec<Value>)| {
        let found = Value::structure((1..).zip(fields));
        Value::structure([(1, Value::I32(ty)), (ty as i16 + 2, found)])
    };
    Value::List(TType::Struct, params.map(param).into())
}

pub(super) fn bytes(value: &[u8]) -> Value {
    Value::Binary(value.to_vec())
}

pub(super) fn priority(number: i32) -> Value {
    Value::structure([(1, Value::I32(number))])
}

pub(super) const VOID: Reply = Reply::Result(None);
