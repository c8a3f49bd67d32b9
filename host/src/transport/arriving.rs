use super::control::Control;
use super::intervals::Intervals;
use crate::scheme::MAX_SUBFLOWS;
use crate::stats::DropReason;
use weir_units::Time;

/// A message that is arriving.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    /// Bytes of the message that have arrived.
    pub data: Intervals,
    /// Its size, known once its END has come.
    size: Option<u64>,
    pub path_id: u16,
    first: Arrival,
    others: Vec<Arrival>,
    /// The expected byte of the last NACK, and when that was sent.
    pub nacked: Option<(u64, Time)>,
    /// The last credit for it, once it has requested credits.
    pub credit: Option<Control>,
    /// True if the scheme has changed since that credit.
    pub resumes: bool,
}

/// The bytes of a message that have arrived by one subflow.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    /// Its bytes in its own sequence space; unused with go-back-N, whose only subflow has the message's.
    bytes: Intervals,
    /// Packets taken and not acknowledged.
    pub unacked: u32,
    /// The ACK that waits for more packets, and until when.
    pub held: Option<Control>,
    pub ack_due: Option<Time>,
}

impl Arrival {
    /// Notes that an ACK is sent: none is held any more.
    pub fn ack_sent(&mut self) {
        (self.unacked, self.held, self.ack_due) = (0, None, None);
    }
}

/// The place of a DATA packet: in its subflow, and in the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub seq: u64,
    pub data: u64,
    pub len: u64,
    /// True if the message ends with it.
    pub is_end: bool,
}

/// The order of a DATA packet among those of its subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It brought the bytes that were expected next.
    Next,
    /// It is behind a gap.
    Ahead,
    /// All of its bytes had arrived.
    Repeated,
}

/// The effect of a DATA packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub order: Order,
    /// Bytes of the message that arrived for the first time.
    pub bytes: u64,
    /// Next byte expected of the subflow: what an ACK acknowledges.
    pub reached: u64,
    /// True if nothing is missing in the subflow behind what was acknowledged before.
    pub in_order: bool,
    /// True if the packet completes the message.
    pub is_whole: bool,
}

impl Arriving {
    /// Returns a subflow.
    pub fn subflow(&mut self, index: usize) -> &mut Arrival {
        let Some(other) = index.checked_sub(1) else { return &mut self.first };
        if self.others.len() <= other {
            self.others.resize_with(index, Arrival::default);
        }
        &mut self.others[other]
    }

    fn subflows(&self) -> impl Iterator<Item = &Arrival> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Takes the ACKs that are held, in the order of the subflows.
    pub fn take_held(&mut self) -> impl Iterator<Item = Control> {
        let subflows = std::iter::once(&mut self.first).chain(&mut self.others);
        subflows.filter_map(|subflow| subflow.held.take())
    }

    /// Returns how far each subflow has delivered its own bytes.
    pub fn reached(&self) -> [u64; MAX_SUBFLOWS as usize] {
        let mut reached = [0; MAX_SUBFLOWS as usize];
        reached
            .iter_mut()
            .zip(self.subflows())
            .for_each(|(reached, subflow)| *reached = subflow.bytes.done());
        reached
    }

    /// Returns the next byte expected of a subflow.
    pub fn expected(&self, index: usize) -> u64 {
        self.subflows().nth(index).map_or(0, |subflow| subflow.bytes.done())
    }

    /// Returns the number of ranges behind gaps.
    pub fn stretches(&self) -> usize {
        self.data.ahead() + self.subflows().map(|subflow| subflow.bytes.ahead()).sum::<usize>()
    }

    /// Takes a packet with go-back-N: what is behind a gap is not kept.
    pub fn take_next(&mut self, place: Place) -> Taken {
        let (expected, end) = (self.data.done(), place.data + place.len);
        let order = if place.data > expected {
            Order::Ahead
        } else if end <= expected {
            Order::Repeated
        } else {
            Order::Next
        };
        let is_next = order == Order::Next;
        let bytes = if is_next { self.data.insert(expected, end) } else { 0 };
        Taken {
            order,
            bytes,
            reached: self.data.done(),
            in_order: is_next,
            is_whole: is_next && place.is_end,
        }
    }

    /// Takes a packet of a subflow with selective retransmission, if there is `room` for that many more ranges behind
    /// gaps.
    pub fn take_any(&mut self, index: usize, place: Place, room: usize) -> Result<Taken, DropReason> {
        let Place { seq, data, len, is_end } = place;
        let (end, data_end) = (seq + len, data + len);
        if self.size.is_some_and(|size| data_end > size || is_end && data_end != size)
            || is_end && self.data.end() > data_end
        {
            return Err(DropReason::BeyondEnd);
        }
        let more = usize::from(self.subflow(index).bytes.needs_room(seq, end))
            + usize::from(self.data.needs_room(data, data_end));
        if more > 0 && more > room {
            return Err(DropReason::ReorderFull);
        }
        self.size = self.size.or(is_end.then_some(data_end));
        let bytes = self.data.insert(data, data_end);
        let is_whole = self.size == Some(self.data.done());
        let subflow = self.subflow(index);
        let expected = subflow.bytes.done();
        let in_order = seq <= expected && subflow.bytes.ahead() == 0;
        let order = match subflow.bytes.insert(seq, end) {
            0 => Order::Repeated,
            _ if seq > expected => Order::Ahead,
            _ => Order::Next,
        };
        Ok(Taken { order, bytes, reached: subflow.bytes.done(), in_order, is_whole })
    }
}
