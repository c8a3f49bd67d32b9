//! Subflows that know nothing of each other: each is a DCTCP flow (RFC 8257) with a window of its own.

use super::{Law, Path, WindowsConfig, cut_to};
use crate::knob::{Knob, KnobOf, part};
use crate::scheme::{Carriage, Conduct, Coupled, FlowParams, Needs, PlainReceiver, Receiver, Scheme, Sender};
use weir_units::{Bytes, Time};

/// `g`: the weight of the newest window of data in alpha.
pub(in crate::schemes) const G: Knob = Knob {
    name: "g",
    unit: "-",
    default: "0.0625",
    range: "0 to 1",
    symbol: "g",
    source: "DCTCP §3.3: 1/16",
    help: "Weight of the newest round trip in alpha, the average share of marked bytes.",
};

/// The knobs.
#[derive(Clone, Debug)]
pub(in crate::schemes) struct Uncoupled {
    g: f64,
    windows: WindowsConfig,
}

impl Default for Uncoupled {
    fn default() -> Self {
        Uncoupled { g: 1.0 / 16.0, windows: WindowsConfig::default() }
    }
}

impl Scheme for Uncoupled {
    const NAME: &'static str = "uncoupled";
    const ABOUT: &'static str =
        "subflows that are DCTCP flows, each for itself: what coupling is measured against";

    fn knobs() -> Vec<KnobOf<Self>> {
        let own = [KnobOf::number(G, 0.0..=1.0, |c: &mut Uncoupled| &mut c.g)];
        own.into_iter().chain(part(WindowsConfig::knobs(), |c: &mut Uncoupled| &mut c.windows)).collect()
    }
    fn needs(&self) -> Needs {
        self.windows.needs()
    }
    fn conduct(&self) -> Conduct {
        CONDUCT
    }
    fn carriage(&self) -> Carriage {
        self.windows.carriage()
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        self.windows.sender(Dctcp::new(self.g), flow)
    }
    fn coupled(&self, flow: &FlowParams) -> Box<dyn Coupled> {
        self.windows.coupled(Dctcp::new(self.g), flow)
    }
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(PlainReceiver)
    }
}

/// Of all schemes of windows: the queue swings about K, 150 KB at 100 Gbit/s; slow start overshoots it.
pub(super) const CONDUCT: Conduct = Conduct {
    fair_within: Time::from_ms(10),
    recovers_within: Time::from_ms(1),
    peak: Bytes::from_kb(400),
    steady: Bytes::from_kb(300),
};

/// DCTCP's law: alpha per subflow.
#[derive(Debug)]
pub(in crate::schemes) struct Dctcp {
    g: f64,
    alphas: Alphas,
}

impl Dctcp {
    pub fn new(g: f64) -> Dctcp {
        Dctcp { g, alphas: Alphas::default() }
    }
}

/// The average share of marked bytes on each subflow; 1 at first (RFC 8257 §3.3).
#[derive(Debug, Default)]
pub(super) struct Alphas(Vec<f64>);

impl Alphas {
    pub fn update(&mut self, g: f64, paths: &[Path], r: usize) {
        self.0.resize(paths.len(), 1.0);
        self.0[r] = (1.0 - g) * self.0[r] + g * paths[r].share;
    }
    pub fn get(&self, r: usize) -> f64 {
        self.0.get(r).copied().unwrap_or(1.0)
    }
}

impl Law for Dctcp {
    fn increase(&self, paths: &[Path], r: usize) -> f64 {
        1.0 / paths[r].w
    }
    fn cut(&mut self, paths: &mut [Path], r: usize, min: f64) {
        cut_to(&mut paths[r], 1.0 - self.alphas.get(r) / 2.0, min);
    }
    fn round(&mut self, paths: &mut [Path], r: usize, _min: f64) {
        self.alphas.update(self.g, paths, r);
    }
}
