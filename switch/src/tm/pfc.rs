//! Priority flow control: accounts for the buffer use of each ingress port and priority, and decides when the
//! neighbour must pause. The dynamic threshold is that of the HPCC simulator (switch-mmu.cc:36-98).

use super::config::{PauseQuanta, PfcConfig, PfcMode, PfcPort, TmConfig};
use weir_units::{Bandwidth, Time};

/// The buffer use of one ingress port and priority, with its limits, which are read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IngressUsage {
    /// Bytes in the reserve and the shared pool.
    pub pooled: u64,
    /// Bytes in the headroom.
    pub headroom: u64,
    /// Capacity of the headroom in bytes.
    headroom_limit: u64,
    /// The threshold is the free pool shifted right by this many bits.
    alpha_shift: u8,
    /// If false, the class is lossy and nothing is charged.
    is_lossless: bool,
    /// True if the last PFC frame to the neighbour was a pause.
    pub is_paused: bool,
}

/// The PFC state of a switch.
#[derive(Debug)]
pub(super) struct Pfc {
    config: PfcConfig,
    priorities: usize,
    /// Indexed by `port_index * priorities + priority`; the index is called an account.
    usage: Vec<IngressUsage>,
    /// By account: when its pause must be refreshed, if it pauses the neighbour.
    refresh_at: Vec<Time>,
    /// By port: the time after which a pause is refreshed.
    refresh_intervals: Vec<Time>,
    /// Size of the pool in bytes that lossless classes share by the dynamic threshold: the buffer without headroom and
    /// reserve of all ports.
    pool: u64,
    /// Bytes of the pool in use.
    pool_used: u64,
}

impl Pfc {
    /// Returns `None` if `config` has no PFC.
    pub(super) fn new(config: &TmConfig) -> Option<Pfc> {
        let pfc = config.pfc?;
        let reserve = match pfc.mode {
            PfcMode::Dynamic { reserve } => reserve.get(),
            PfcMode::Fixed { .. } => 0,
        };
        let lossless = config.ports.iter().filter_map(|port| port.pfc);
        let reserved: u64 = lossless.map(|share| share.headroom.get() + reserve).sum();
        let usage = config.ports.iter().flat_map(|port| {
            let share = port.pfc.unwrap_or_default();
            (0..config.priorities).map(move |priority| IngressUsage {
                headroom_limit: share.headroom.get(),
                alpha_shift: share.alpha_shift,
                is_lossless: port.pfc.is_some() && pfc.exempt & (1 << priority) == 0,
                ..IngressUsage::default()
            })
        });
        let usage: Vec<IngressUsage> = usage.collect();
        let interval = |share: Option<PfcPort>| match share.unwrap_or_default().rate {
            Bandwidth::ZERO => Time::MAX,
            // Half of the pause, so that the refresh may wait for a frame of data.
            rate => pfc.quanta.duration(rate) / 2,
        };
        Some(Pfc {
            config: pfc,
            priorities: usize::from(config.priorities),
            refresh_at: vec![Time::MAX; usage.len()],
            refresh_intervals: config.ports.iter().map(|port| interval(port.pfc)).collect(),
            usage,
            pool: config.buffer.get().saturating_sub(reserved),
            pool_used: 0,
        })
    }

    /// Returns the length of a pause.
    pub(super) fn quanta(&self) -> PauseQuanta {
        self.config.quanta
    }

    /// Returns the account of packets of this ingress port and priority; `None` if the class is lossy.
    #[inline(always)]
    pub(super) fn account(&self, port_index: usize, priority: u8) -> Option<u32> {
        let account = port_index * self.priorities + usize::from(priority);
        let entry = self.usage.get(account).filter(|_| usize::from(priority) < self.priorities)?;
        entry.is_lossless.then_some(account as u32)
    }

    /// Returns whether the dynamic pool decides on admission, instead of the whole buffer.
    #[inline(always)]
    pub(super) fn is_dynamic(&self) -> bool {
        matches!(self.config.mode, PfcMode::Dynamic { .. })
    }

    /// Returns the current threshold in bytes.
    fn threshold(&self, entry: &IngressUsage) -> u64 {
        self.threshold_with(entry, self.pool_used)
    }

    /// Returns the threshold in bytes if `pool_used` bytes of the pool are used.
    fn threshold_with(&self, entry: &IngressUsage, pool_used: u64) -> u64 {
        let free = self.pool.saturating_sub(pool_used);
        free.checked_shr(u32::from(entry.alpha_shift)).unwrap_or(0)
    }

    /// Charges `len` bytes. Returns `false` and charges nothing if neither the pool nor the headroom has
    /// room.
    #[inline(always)]
    #[must_use]
    pub(super) fn admit(&mut self, account: u32, len: u32) -> bool {
        let len = u64::from(len);
        let PfcMode::Dynamic { reserve } = self.config.mode else {
            self.usage[account as usize].pooled += len;
            return true;
        };
        let threshold = self.threshold(&self.usage[account as usize]);
        let entry = &mut self.usage[account as usize];
        let reserve = reserve.get();
        // As in switch-mmu.cc, a packet is dropped only if both limits are exceeded. Above its threshold a
        // queue may use only its headroom, which absorbs the packets that were in flight when the pause was
        // sent.
        if len + entry.headroom > entry.headroom_limit
            && len + entry.pooled.saturating_sub(reserve) > threshold
        {
            return false;
        }
        let new_pooled = entry.pooled + len;
        if new_pooled <= reserve {
            entry.pooled = new_pooled;
        } else if new_pooled - reserve > threshold {
            entry.headroom += len;
        } else {
            entry.pooled = new_pooled;
            self.pool_used += len.min(new_pooled - reserve);
        }
        true
    }

    /// Releases `len` bytes: from the headroom first, then the shared pool, then the reserve.
    #[inline(always)]
    pub(super) fn release(&mut self, account: u32, len: u32) {
        let len = u64::from(len);
        let entry = &mut self.usage[account as usize];
        let PfcMode::Dynamic { reserve } = self.config.mode else {
            entry.pooled -= len;
            return;
        };
        let from_headroom = entry.headroom.min(len);
        let rest = len - from_headroom;
        self.pool_used -= rest.min(entry.pooled.saturating_sub(reserve.get()));
        entry.headroom -= from_headroom;
        entry.pooled -= rest;
    }

    /// Returns whether a pause frame must be sent after an admission (XOFF). If so, the account counts as paused.
    #[inline(always)]
    pub(super) fn check_xoff(&mut self, now: Time, account: u32) -> bool {
        let entry = self.usage[account as usize];
        let exceeds_threshold = match self.config.mode {
            PfcMode::Fixed { threshold } => entry.pooled >= threshold.get(),
            PfcMode::Dynamic { reserve } => {
                entry.headroom > 0 || entry.pooled.saturating_sub(reserve.get()) >= self.threshold(&entry)
            }
        };
        let pause = exceeds_threshold && !entry.is_paused;
        if pause {
            self.usage[account as usize].is_paused = true;
            self.schedule_refresh(now, account as usize);
        }
        pause
    }

    fn schedule_refresh(&mut self, now: Time, account: usize) {
        self.refresh_at[account] = now.saturating_add(self.refresh_intervals[account / self.priorities]);
    }

    /// Returns when the next pause of a port, given by its index, must be refreshed; `None` if it pauses no
    /// priority of its neighbour.
    pub(super) fn next_refresh(&self, port_index: usize) -> Option<Time> {
        let accounts = port_index * self.priorities..(port_index + 1) * self.priorities;
        let paused = accounts.filter(|&account| self.usage[account].is_paused);
        paused.map(|account| self.refresh_at[account]).min().filter(|&time| time < Time::MAX)
    }

    /// Returns the priorities, one bit each, for which the pause of a port must be refreshed now, and schedules
    /// the next time.
    pub(super) fn take_refreshes(&mut self, now: Time, port_index: usize) -> u8 {
        let mut due = 0;
        for priority in 0..self.priorities {
            let account = port_index * self.priorities + priority;
            if self.usage[account].is_paused && self.refresh_at[account] <= now {
                due |= 1 << priority;
                self.schedule_refresh(now, account);
            }
        }
        due
    }

    /// Returns whether a resume frame must be sent after a release (XON). If so, the account is no longer paused.
    #[inline(always)]
    pub(super) fn check_xon(&mut self, account: u32) -> bool {
        if !self.usage[account as usize].is_paused {
            return false;
        }
        let entry = self.usage[account as usize];
        let resume = self.is_below_xon(&entry, self.pool_used);
        self.usage[account as usize].is_paused = !resume;
        resume
    }

    /// Returns whether the use is low enough to resume if `pool_used` bytes of the pool are used.
    fn is_below_xon(&self, entry: &IngressUsage, pool_used: u64) -> bool {
        let offset = self.config.resume_offset.get();
        match self.config.mode {
            PfcMode::Fixed { threshold } => entry.pooled + offset < threshold.get(),
            PfcMode::Dynamic { reserve } => {
                let shared = entry.pooled.saturating_sub(reserve.get());
                entry.headroom == 0
                    && (shared == 0 || shared + offset <= self.threshold_with(entry, pool_used))
            }
        }
    }

    /// Returns the accounts that stay paused once the use of each account has fallen to its value in
    /// `stuck_bytes`.
    pub(super) fn deadlocked_accounts(&self, stuck_bytes: &[u64]) -> impl Iterator<Item = u32> {
        let reserve = match self.config.mode {
            PfcMode::Dynamic { reserve } => reserve.get(),
            PfcMode::Fixed { .. } => 0,
        };
        // `release` drains headroom first, so the remaining bytes are those in the pool, unless more remain than the
        // pool has now.
        let drained = |(entry, &stuck): (&IngressUsage, &u64)| {
            let pooled = stuck.min(entry.pooled);
            IngressUsage { pooled, headroom: stuck - pooled, ..*entry }
        };
        let usage: Vec<IngressUsage> = self.usage.iter().zip(stuck_bytes).map(drained).collect();
        let pool_used = usage.iter().map(|entry| entry.pooled.saturating_sub(reserve)).sum();
        let stays_paused =
            move |entry: &IngressUsage| entry.is_paused && !self.is_below_xon(entry, pool_used);
        (0..).zip(usage).filter(move |(_, entry)| stays_paused(entry)).map(|(account, _)| account)
    }

    /// Returns the index of the ingress port and the priority of an account.
    #[inline(always)]
    pub(super) fn ingress_queue(&self, account: u32) -> (usize, u8) {
        (account as usize / self.priorities, (account as usize % self.priorities) as u8)
    }

    /// Returns the buffer use of an ingress port, given by its index, and priority.
    pub(super) fn usage(&self, port_index: usize, priority: u8) -> IngressUsage {
        self.usage[port_index * self.priorities + usize::from(priority)]
    }

    /// Returns whether `pool_used` equals the sum over all accounts.
    pub(super) fn pool_balances(&self) -> bool {
        match self.config.mode {
            PfcMode::Fixed { .. } => self.pool_used == 0,
            PfcMode::Dynamic { reserve } => {
                let shared = self.usage.iter().map(|u| u.pooled.saturating_sub(reserve.get()));
                shared.sum::<u64>() == self.pool_used
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::PortConfig;
    use super::*;
    use weir_units::Bytes;

    /// Returns the example of docs/algorithms/pfc.md#worked-numbers-of-pfc: a ToR with 16 x 100G, 20 x 400G and 32
    /// MiB.
    fn tor() -> Pfc {
        let (host, fabric) = (Bandwidth::from_gbps(100), Bandwidth::from_gbps(400));
        let port = |number: u16, rate| PortConfig {
            pfc: Some(PfcPort::for_link(rate, Time::from_us(1), host)),
            ..PortConfig::new(number)
        };
        let ports = (1..=36).map(|n| port(n, if n <= 16 { host } else { fabric })).collect();
        let buffer = Bytes::new(32 << 20);
        Pfc::new(&TmConfig {
            ports,
            priorities: 1,
            weights: Vec::new(),
            buffer,
            pfc: Some(PfcConfig::dynamic()),
        })
        .unwrap()
    }

    #[test]
    fn initial_thresholds_are_those_of_the_simulator() {
        let pfc = tor();
        assert_eq!(pfc.threshold(&pfc.usage(0, 0)), 3_725_872);
        assert_eq!(pfc.threshold(&pfc.usage(35, 0)), 14_903_488);
    }

    #[test]
    fn a_single_busy_queue_pauses_at_a_ninth_of_the_pool() {
        let mut pfc = tor();
        let mut sent = 0u64;
        while !pfc.check_xoff(Time::ZERO, 0) {
            assert!(pfc.admit(0, 1000));
            sent += 1000;
        }
        let ninth = pfc.pool / 9;
        assert!(sent.abs_diff(ninth + 4096) <= 1000, "{sent} against {ninth}");
        assert!(!pfc.check_xoff(Time::ZERO, 0), "a pause is sent once");
        // Packets that were in flight go to the headroom, until it is full.
        let mut in_flight = 0;
        while pfc.admit(0, 1000) {
            in_flight += 1000;
        }
        assert_eq!(in_flight, 37_000);
        assert!(pfc.pool_balances());
        // Headroom drains first; the neighbour resumes 3072 bytes below the threshold.
        while !pfc.check_xon(0) {
            assert!(pfc.usage(0, 0).pooled > 0);
            pfc.release(0, 1000);
        }
        assert_eq!(pfc.usage(0, 0).headroom, 0);
        let shared = pfc.usage(0, 0).pooled - 4096;
        assert!(
            shared + 3072 <= pfc.threshold(&pfc.usage(0, 0))
                && shared + 4072 + 125 > pfc.threshold(&pfc.usage(0, 0))
        );
    }

    #[test]
    fn fixed_threshold_resumes_below_the_offset() {
        let ports = vec![PortConfig { pfc: Some(PfcPort::default()), ..PortConfig::new(1) }];
        let pfc = Some(PfcConfig::fixed(Bytes::from_kb(500)));
        let mut pfc =
            Pfc::new(&TmConfig { ports, priorities: 8, weights: Vec::new(), buffer: Bytes::MAX, pfc })
                .unwrap();
        let account = pfc.account(0, 3).unwrap();
        for n in 1..=500 {
            assert!(pfc.admit(account, 1000));
            assert_eq!(pfc.check_xoff(Time::ZERO, account), n == 500);
        }
        for n in 1..=4 {
            pfc.release(account, 1000);
            // 496,000 is the first multiple of 1,000 below 500,000 - 3,072.
            assert_eq!(pfc.check_xon(account), n == 4);
        }
        assert_eq!(pfc.ingress_queue(account), (0, 3));
    }

    #[test]
    fn exempt_classes_and_ports_without_pfc_are_not_charged() {
        let ports =
            vec![PortConfig { pfc: Some(PfcPort::default()), ..PortConfig::new(1) }, PortConfig::new(2)];
        let exempt = 1 << 7;
        let pfc = Some(PfcConfig { exempt, ..PfcConfig::fixed(Bytes::from_kb(500)) });
        let pfc = Pfc::new(&TmConfig { ports, priorities: 8, weights: Vec::new(), buffer: Bytes::MAX, pfc })
            .unwrap();
        assert!(pfc.account(0, 6).is_some());
        assert_eq!(pfc.account(0, 7), None);
        assert_eq!(pfc.account(1, 6), None);
        assert_eq!(pfc.account(9, 6), None);
    }
}
