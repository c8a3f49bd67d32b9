//! Forwards messages of the data plane to the primary of each role: packet-ins, digest lists, idle timeouts. The data
//! plane only writes to a bounded queue; the rest happens in the tasks of this module.

use super::device::Device;
use super::sync::lock;
use p4runtime::p4::v1::stream_message_response::Update;
use p4runtime::p4::v1::{DigestList, IdleTimeoutNotification};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use weir_switch::driver::{DataplaneError, DataplaneEvent, Delivery};
use weir_switch::pipeline::Digest;

/// Capacity of the queue from the data plane. The data plane drops and counts messages when it is full.
const EVENT_QUEUE_LEN: usize = 4096;
/// Minimum interval between scans for timed-out entries, as in the specification's pseudo-code.
const IDLE_SCAN_INTERVAL: Duration = Duration::from_millis(10);
/// Pause after a scan, in multiples of its duration. Limits scans to 2% of the data plane's time.
const SCAN_PAUSE_FACTOR: u32 = 50;
/// Maximum number of entries per notification; keeps it far below gRPC's limit of 4 MB.
const MAX_NOTIFIED_ENTRIES: usize = 1024;

/// A message from the data plane.
pub(super) enum Event {
    PacketIn(Vec<u8>),
    Digest(Digest),
}

/// Subscribes to the messages of the data plane and returns their receiver.
///
/// # Errors
///
/// The data plane has stopped.
pub(super) async fn subscribe(device: &Device) -> Result<mpsc::Receiver<Event>, DataplaneError> {
    let (queue, events) = mpsc::channel(EVENT_QUEUE_LEN);
    let subscriptions = Arc::clone(&device.subscriptions);
    let subscriber = move |event: DataplaneEvent<'_>| {
        let event = match event {
            DataplaneEvent::PacketIn { frame } if subscriptions.packet_in.load(Ordering::Relaxed) => {
                Event::PacketIn(frame.to_vec())
            }
            DataplaneEvent::Digest(digest) if subscriptions.digests.load(Ordering::Relaxed) => {
                Event::Digest(digest.clone())
            }
            _ if queue.is_closed() => return Delivery::Closed,
            _ => return Delivery::Ignored,
        };
        match queue.try_send(event) {
            Ok(()) => Delivery::Accepted,
            Err(TrySendError::Full(_)) => Delivery::Full,
            Err(TrySendError::Closed(_)) => Delivery::Closed,
        }
    };
    device.dataplane.subscribe(subscriber).await?;
    Ok(events)
}

/// Forwards packet-ins and digests to the primaries until the data plane stops.
pub(super) async fn relay(device: Arc<Device>, mut events: mpsc::Receiver<Event>) {
    loop {
        let due = lock(&device.digests).next_due();
        let list_due = async {
            match due {
                Some(due) => {
                    tokio::time::sleep(Duration::from_nanos(due.saturating_sub(device.now()).as_ns())).await
                }
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = events.recv() => event,
            () = list_due => {
                let lists = lock(&device.digests).take_due(device.now());
                lists.into_iter().for_each(|list| send_digests(&device, list));
                continue;
            }
            () = device.digests_changed.notified() => continue,
        };
        match event {
            None => return,
            Some(Event::PacketIn(frame)) => packet_in(&device, &frame),
            Some(Event::Digest(digest)) => {
                let (list, dropped) = {
                    let mut digests = lock(&device.digests);
                    (digests.push(device.now(), digest), std::mem::take(&mut digests.dropped))
                };
                device.config.lost.digests.fetch_add(dropped, Ordering::Relaxed);
                if let Some(list) = list {
                    send_digests(&device, list);
                }
            }
        }
    }
}

/// Sends a packet-in to the primaries. Counts it as lost if a primary does not get it.
fn packet_in(device: &Device, frame: &[u8]) {
    let headers = lock(&device.headers).clone();
    let packet = headers.and_then(|headers| headers.packet_in.packet_in(frame));
    let sent = packet.is_some_and(|packet| lock(&device.sessions).send_to_primaries(Update::Packet(packet)));
    device.config.lost.packet_in.fetch_add(u64::from(!sent), Ordering::Relaxed);
}

fn send_digests(device: &Device, list: DigestList) {
    let messages = list.data.len() as u64;
    let list = DigestList { timestamp: wall_clock(), ..list };
    if !lock(&device.sessions).send_to_primaries(Update::Digest(list)) {
        device.config.lost.digests.fetch_add(messages, Ordering::Relaxed);
    }
}

/// Scans for timed-out entries while any entry has a timeout, and reports them. Ends with the data plane.
pub(super) async fn notify_idle_timeouts(device: Arc<Device>) {
    loop {
        while !device.has_timeouts.load(Ordering::Relaxed) {
            device.timeouts_changed.notified().await;
        }
        while device.has_timeouts.load(Ordering::Relaxed) {
            let Ok((expired, scan_time)) = device.take_timed_out().await else { return };
            for table_entry in expired.chunks(MAX_NOTIFIED_ENTRIES).map(<[_]>::to_vec) {
                let count = table_entry.len() as u64;
                let notification = IdleTimeoutNotification { table_entry, timestamp: wall_clock() };
                if !lock(&device.sessions).send_to_primaries(Update::IdleTimeoutNotification(notification)) {
                    device.config.lost.timeouts.fetch_add(count, Ordering::Relaxed);
                }
            }
            tokio::time::sleep(IDLE_SCAN_INTERVAL.max(scan_time * SCAN_PAUSE_FACTOR)).await;
        }
    }
}

/// Returns nanoseconds since the Unix epoch.
fn wall_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
