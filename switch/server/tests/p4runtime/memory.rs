//! The cost of large requests: memory of the server process, and latency of concurrent calls. The server runs in its
//! own process, which executes this test binary again.

use super::bed::*;
use p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as Set;
use p4runtime::p4::v1::stream_message_request::Update as StreamUpdate;
use p4runtime::p4::v1::update::Type::Insert;
use p4runtime::p4::v1::write_request::Atomicity::{self, ContinueOnError, DataplaneAtomic};
use p4runtime::p4::v1::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use weir_server::p4runtime::{Server, ServerConfig};
use weir_switch::driver::{Dataplane, DataplaneConfig};

/// Maximum size of a message that the server accepts.
const MAX_REQUEST_LEN: usize = 16 << 20;

/// A switch with its server in a process of its own.
struct ServerProcess {
    process: Child,
    address: String,
    /// Kept open, because the process writes to it when it ends.
    _output: BufReader<ChildStdout>,
}

impl ServerProcess {
    fn start() -> ServerProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["memory::serve_until_the_input_ends", "--exact", "--ignored", "--nocapture"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the server has ended");
            if let Some((_, address)) = line.trim().split_once("serves at ") {
                break address.to_owned();
            }
        };
        ServerProcess { process, address, _output: output }
    }

    async fn connect(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    /// Sends the bytes of a request.
    async fn call(&self, method: &str, request: Vec<u8>) -> Result<(), Status> {
        let mut client = Grpc::new(self.connect().await);
        client.ready().await.unwrap();
        let path = format!("/p4.v1.P4Runtime/{method}").parse().unwrap();
        client.unary(Request::new(request), path, RawCodec).await.map(drop)
    }

    /// Returns the peak memory of the process in bytes.
    fn peak_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "the process that the other tests start"]
fn serve_until_the_input_ends() {
    let config = DataplaneConfig { cpu_port: Some(CPU_PORT), ..DataplaneConfig::default() };
    let dataplane = Dataplane::start(config, None, &[]).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = ServerConfig { device_id: DEVICE, ..ServerConfig::default() };
    let server = Server::start(dataplane.handle(), config, listener).unwrap();
    writeln!(std::io::stdout(), "serves at {}", server.address()).unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A codec that sends bytes as they are and ignores the response.
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = RawCodec;
    type Decoder = RawCodec;
    fn encoder(&mut self) -> RawCodec {
        RawCodec
    }
    fn decoder(&mut self) -> RawCodec {
        RawCodec
    }
}

impl Encoder for RawCodec {
    type Item = Vec<u8>;
    type Error = Status;
    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = ();
    type Error = Status;
    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        let len = prost::bytes::Buf::remaining(buffer);
        prost::bytes::Buf::advance(buffer, len);
        Ok(Some(()))
    }
}

/// Encodes a protobuf field that holds a message or bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut encoded = vec![number << 3 | 2];
    prost::encoding::encode_varint(value.len() as u64, &mut encoded);
    [encoded, value.to_vec()].concat()
}

/// Repeats an element until a message has its maximum size.
fn repeat_to_limit(element: &[u8]) -> Vec<u8> {
    element.repeat((MAX_REQUEST_LEN - 200) / element.len())
}

/// Returns requests of 16 MiB with the smallest possible elements: name, method, encoded request.
fn amplifiers() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let device = [8, DEVICE as u8];
    let head = [&device[..], &[0x1a, 2, 0x10, 1]].concat();
    let with_head = |rest: Vec<u8>| [head.clone(), rest].concat();
    let write = |entity: Vec<u8>| with_head(field(4, &[vec![8, 1], field(2, &entity)].concat()));
    let config = |config: Vec<u8>| with_head([vec![0x20, 2], field(5, &config)].concat());
    vec![
        ("empty updates", "Write", with_head(repeat_to_limit(&field(4, &[])))),
        (
            "empty entries",
            "Write",
            with_head(repeat_to_limit(&field(4, &[vec![8, 1], field(2, &field(2, &[]))].concat()))),
        ),
        ("empty matches of one entry", "Write", write(field(2, &repeat_to_limit(&field(2, &[]))))),
        (
            "empty replicas of one group",
            "Write",
            write(field(9, &field(1, &repeat_to_limit(&field(2, &[]))))),
        ),
        ("empty tables", "SetForwardingPipelineConfig", config(field(1, &repeat_to_limit(&field(2, &[]))))),
        ("empty entities", "Read", [device.to_vec(), repeat_to_limit(&field(2, &[]))].concat()),
        ("a long role", "Write", with_head(field(6, &repeat_to_limit(b"r")))),
        ("empty metadata", "StreamChannel", field(2, &repeat_to_limit(&field(2, &[])))),
    ]
}

#[tokio::test]
async fn a_request_costs_less_than_four_times_its_size() {
    for (what, method, request) in amplifiers() {
        let server = ServerProcess::start();
        let status = server.call(method, request).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{what}: {status:?}");
        assert!(status.message().contains("send fewer"), "{what}: {status:?}");
        let peak = server.peak_memory();
        assert!(peak < 4 * MAX_REQUEST_LEN, "{what}: {} MiB", peak >> 20);
    }
}

#[tokio::test]
async fn a_program_costs_less_than_four_times_its_size() {
    let set = |json: Vec<u8>| {
        let config = ForwardingPipelineConfig { p4_device_config: json, ..config() };
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            action: Set::VerifyAndCommit.into(),
            config: Some(config),
            ..Default::default()
        };
        prost::Message::encode_to_vec(&request)
    };
    for element in ["[],", "[0],", "{},", "{\"\":0},", "0,"] {
        let server = ServerProcess::start();
        let elements = element.repeat(MAX_REQUEST_LEN / 2 / element.len());
        let json = format!("{{\"header_types\":[{elements}0]}}").into_bytes();
        // There is no primary, so no election id is needed.
        let status = server.call("SetForwardingPipelineConfig", set(json)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{element}: {status:?}");
        let peak = server.peak_memory();
        assert!(peak < 4 * MAX_REQUEST_LEN, "{element}: {} MiB", peak >> 20);
    }
}

// Large requests are encoded on other threads than the one that measures.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn small_calls_are_fast_during_large_requests() {
    let server = ServerProcess::start();
    let mut client = P4RuntimeClient::new(server.connect().await);
    client.capabilities(CapabilitiesRequest::default()).await.unwrap();
    let (_, _, empty) = amplifiers().remove(0);
    let full = WriteRequest { device_id: DEVICE, updates: entries(1 << 17), ..Default::default() };
    let full = prost::Message::encode_to_vec(&full);
    let large = async {
        for _ in 0..3 {
            let _ = tokio::join!(
                server.call("Write", empty.clone()),
                server.call("Write", empty.clone()),
                server.call("Write", full.clone()),
            );
        }
    };
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let concurrent = async {
        let mut took = Vec::new();
        while stopped.try_recv().is_err() {
            let start = Instant::now();
            client.capabilities(CapabilitiesRequest::default()).await.unwrap();
            took.push(start.elapsed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        took
    };
    let (_, mut took) = tokio::join!(async { (large.await, stop.send(())) }, concurrent);
    took.sort();
    let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
    assert!(median < Duration::from_millis(100), "{took:?}");
    // The machine may be busy.
    assert!(longest < Duration::from_secs(1), "{took:?}");
    let peak = server.peak_memory();
    assert!(peak < 3 * 4 * MAX_REQUEST_LEN, "{} MiB", peak >> 20);
}

fn entries(count: u64) -> Vec<Update> {
    (0..count).map(|n| update(Insert, l2(0x0200_0000_0000 + n, 1 + n % 8))).collect()
}

/// Fills a table by writes of `batch` entries each. Returns the peak memory of the server in bytes.
async fn fill(batch: usize, atomicity: Atomicity) -> usize {
    let server = ServerProcess::start();
    let mut client = Client::new(server.connect().await);
    client.bid(1).await;
    client.arbitration().await;
    client.push(Set::VerifyAndCommit, Some(config())).await.unwrap();
    let entries = entries(1 << 16);
    for updates in entries.chunks(batch) {
        client.write_all(updates.to_vec(), atomicity).await.unwrap();
    }
    let peak = server.peak_memory();
    assert_eq!(client.l2().await.len(), entries.len());
    peak
}

#[tokio::test]
async fn a_large_batch_costs_little_more_than_small_ones() {
    let message = WriteRequest {
        updates: vec![update(Insert, l2(0x0200_0000_0000, 1)); 1 << 16],
        ..Default::default()
    };
    let bytes = prost::Message::encoded_len(&message);
    let small = fill(128, ContinueOnError).await;
    for atomicity in [ContinueOnError, DataplaneAtomic] {
        let large = fill(1 << 16, atomicity).await;
        let more = large.saturating_sub(small);
        assert!(more < 4 * bytes, "{more} bytes more for {bytes} bytes, {atomicity:?}");
    }
}

#[tokio::test]
async fn a_read_with_repeated_results_is_rejected() {
    let server = ServerProcess::start();
    let mut client = Client::new(server.connect().await);
    client.bid(1).await;
    client.arbitration().await;
    client.push(Set::VerifyAndCommit, Some(config())).await.unwrap();
    client.write_all((0..2_000).map(|n| update(Insert, l2(n, 1))).collect(), ContinueOnError).await.unwrap();
    let all = entity::Entity::TableEntry(TableEntry::default());
    let status = client.read_messages(vec![all; 10_000]).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let peak = server.peak_memory();
    assert!(peak < 256 << 20, "{} MiB", peak >> 20);
}

#[tokio::test]
async fn an_oversized_stream_message_ends_the_stream() {
    let (_bed, mut client) = TestBed::ready().await;
    let metadata = vec![PacketMetadata::default(); 1 << 17];
    client.send(StreamUpdate::Packet(PacketOut { payload: Vec::new(), metadata })).await;
    let end = client.next().await.unwrap_err();
    assert_eq!(end.code(), Code::ResourceExhausted, "{end:?}");
}

#[tokio::test]
async fn a_malformed_update_is_an_error_of_the_call() {
    let server = ServerProcess::start();
    // The entity of the second update is truncated.
    let request = [&[8, DEVICE as u8][..], &field(4, &[8, 1]), &field(4, &[0x12, 9, 1])].concat();
    let status = server.call("Write", request).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status:?}");
}
