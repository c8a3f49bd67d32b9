//! The control connection to one switch, as far as link failure detection depends on it.

use weir_units::Time;

/// The reason why the controller cannot write a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlLoss {
    /// Another controller is primary.
    Standby,
    /// The connection broke or could not be made. The switch may still forward packets.
    Unreachable,
    /// The switch's host refused the connection (ECONNREFUSED): no process listens on the port.
    ConnectionRefused,
}

/// The state of the control connection to one switch: whether it is connected, the echo in flight, the replies so far,
/// and the port states that the switch has reported.
///
/// An *echo* is a request whose content does not matter: its reply shows that the switch has handled all requests sent
/// before it, since the connection delivers in order. A *round* is a probe interval, numbered from 1.
#[derive(Clone, Debug)]
pub(super) struct ControlChannel {
    connection: Result<(), ControlLoss>,
    /// Number of consecutive refused connections.
    refusals: u32,
    /// Echo request in flight, if any.
    echo: Option<Echo>,
    /// Latest round whose probes the switch has certainly accepted, because it replied to the echo after them; 0 if
    /// none.
    pub accepted_round: u64,
    /// Number of replies since the last late one or the last new connection.
    timely_replies: u32,
    /// A probe that this switch sent has arrived at a neighbour.
    pub has_sent_probe: bool,
    /// This switch has returned a probe to the controller.
    pub has_returned_probe: bool,
    /// A request for port states is in flight.
    is_waiting_for_ports: bool,
    /// Latest port states, `(port, is_up)`; `None` if the switch has not reported any.
    ports: Option<Vec<(u16, bool)>>,
    /// Round of the last request for port states because of links on which no probe has ever arrived; `None` if there
    /// was none on this connection.
    unseen_query_round: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Echo {
    round: u64,
    sent_at: Time,
}

impl ControlChannel {
    /// Creates the state before the first connection.
    pub(super) fn new() -> ControlChannel {
        ControlChannel {
            connection: Err(ControlLoss::Unreachable),
            refusals: 0,
            echo: None,
            accepted_round: 0,
            timely_replies: 0,
            has_sent_probe: false,
            has_returned_probe: false,
            is_waiting_for_ports: false,
            ports: None,
            unseen_query_round: None,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.is_ok()
    }

    /// Returns whether the switch is connected and its echo, if any, has been in flight for at most `timeout`.
    pub(super) fn is_responsive(&self, now: Time, timeout: Time) -> bool {
        self.is_connected() && self.echo.is_none_or(|echo| now <= echo.sent_at + timeout)
    }

    /// Returns whether the connection is lost or the switch does not reply. A switch that refuses connections or has
    /// another primary controller is not silent.
    pub(super) fn is_silent(&self, now: Time, timeout: Time) -> bool {
        match self.connection {
            Ok(()) => !self.is_responsive(now, timeout),
            Err(loss) => loss == ControlLoss::Unreachable,
        }
    }

    /// Returns the number of replies since the last late one or the last new connection.
    pub(super) fn timely_replies(&self) -> u32 {
        self.timely_replies
    }

    /// Records a new connection.
    pub(super) fn on_connected(&mut self) {
        (self.connection, self.refusals, self.unseen_query_round) = (Ok(()), 0, None);
        self.reset();
    }

    /// Records a lost or failed connection. Returns whether at least `max_refusals` consecutive connections were
    /// refused, which means that the switch's process is dead.
    pub(super) fn on_loss(&mut self, loss: ControlLoss, max_refusals: u32) -> bool {
        self.connection = Err(loss);
        self.reset();
        self.refusals = match loss {
            ControlLoss::ConnectionRefused => self.refusals.saturating_add(1),
            ControlLoss::Unreachable | ControlLoss::Standby => 0,
        };
        self.refusals >= max_refusals
    }

    fn reset(&mut self) {
        self.echo = None;
        self.reset_counters();
    }

    /// Resets the count of timely replies, for example after the controller itself was delayed.
    pub(super) fn reset_counters(&mut self) {
        self.timely_replies = 0;
    }

    /// Starts an echo request, unless one is in flight or the switch is not connected. Returns whether it started one.
    pub(super) fn start_echo(&mut self, round: u64, now: Time) -> bool {
        let can_start = self.is_connected() && self.echo.is_none();
        if can_start {
            self.echo = Some(Echo { round, sent_at: now });
        }
        can_start
    }

    /// Handles the reply to the echo request of `round`. Returns whether it arrived within `timeout`, or `None` if
    /// there was no such request.
    pub(super) fn on_echo_reply(&mut self, round: u64, now: Time, timeout: Time) -> Option<bool> {
        let is_timely = self.is_responsive(now, timeout);
        self.echo.take_if(|echo| echo.round == round)?;
        self.accepted_round = round;
        self.timely_replies = self.timely_replies.saturating_add(1);
        Some(is_timely)
    }

    /// Records a request for port states. Returns whether the caller must send it; it must not if one is in flight.
    pub(super) fn request_port_states(&mut self) -> bool {
        // The earlier states may be out of date. A request in flight has cleared them already.
        if !self.is_waiting_for_ports {
            self.ports = None;
        }
        !std::mem::replace(&mut self.is_waiting_for_ports, true)
    }

    /// Like [`request_port_states`](Self::request_port_states), but at most once in `interval` rounds.
    pub(super) fn request_unseen_port_states(&mut self, round: u64, interval: u64) -> bool {
        if self.unseen_query_round.is_some_and(|last| round < last + interval) {
            return false;
        }
        self.unseen_query_round = Some(round);
        self.request_port_states()
    }

    /// Records the port states of the switch, `(port, is_up)`; `None` if they could not be read.
    pub(super) fn on_port_states(&mut self, ports: Option<Vec<(u16, bool)>>) {
        (self.is_waiting_for_ports, self.ports) = (false, ports);
    }

    pub(super) fn is_waiting_for_ports(&self) -> bool {
        self.is_waiting_for_ports
    }

    /// Returns whether a port is up; `None` if unknown.
    pub(super) fn is_port_up(&self, port: u16) -> Option<bool> {
        self.ports.iter().flatten().find(|(number, _)| *number == port).map(|(_, is_up)| *is_up)
    }
}
