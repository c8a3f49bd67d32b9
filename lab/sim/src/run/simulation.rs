//! The backend: runs the schemes of an experiment one after the other or at the same time.

use super::scheme_run::SchemeRun;
use crate::forecast::ScalingForecast;
use crate::parallel_schemes;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use weir_experiment::Experiment;
use weir_experiment::backend::{Backend, CorePool, Error, Observer, RunOutcome};
use weir_experiment::results::{Results, RunHeader};
use weir_switch::program::Engine;

/// The backend that runs experiments in virtual time. No field changes the results, except that `trace_paths` adds
/// traces.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Maximum number of schemes that run at the same time; also limited by `cores`.
    pub jobs: usize,
    /// Cores for the schemes; cores beyond the number of schemes are used as worker threads within schemes.
    pub cores: Arc<CorePool>,
    /// The engine that runs the switch programs.
    pub engine: Engine,
    /// Minimum number of events in a window for worker threads to share it. Waking the threads costs about as much
    /// time as this many events.
    pub parallel_threshold: u64,
    /// If set, each scheme runs on one thread, and the CPU time of each process is recorded here.
    pub forecast: Option<Arc<Mutex<ScalingForecast>>>,
    /// True to trace the paths of sampled packets
    /// ([`SchemeTrace::packets`](weir_experiment::results::SchemeTrace::packets)).
    pub trace_paths: bool,
}

/// Default of [`Simulation::parallel_threshold`]: some ten microseconds of work.
const DEFAULT_PARALLEL_THRESHOLD: u64 = 64;

impl Simulation {
    /// Uses up to `threads` cores and the default engine.
    pub fn new(threads: usize) -> Simulation {
        Simulation::with_cores(Arc::new(CorePool::new(threads)))
    }

    /// Uses the cores of a pool, which other runs may share, and the default engine.
    pub fn with_cores(cores: Arc<CorePool>) -> Simulation {
        Simulation {
            jobs: cores.total(),
            cores,
            engine: Engine::default(),
            parallel_threshold: DEFAULT_PARALLEL_THRESHOLD,
            forecast: None,
            trace_paths: false,
        }
    }
}

impl Backend for Simulation {
    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        experiment
            .schemes
            .iter()
            .try_for_each(|scheme| SchemeRun::new(experiment, scheme, self.engine).map(|_| ()))
    }

    fn run(&self, experiment: &Experiment, observer: &mut dyn Observer) -> Result<RunOutcome, Error> {
        let results = run_on(experiment, self, observer)?;
        Ok(RunOutcome { results, fabric: None, failure: None })
    }
}

/// Runs all schemes of `experiment` one after the other on one core.
///
/// # Errors
///
/// The topology is too large for the simulator or has no routes, or a switch or host rejects its configuration.
pub fn run(experiment: &Experiment, observer: &mut dyn Observer) -> Result<Results, Error> {
    run_on(experiment, &Simulation::new(1), observer)
}

/// Runs all schemes of `experiment` as `virtual_time` specifies.
///
/// # Errors
///
/// Same as for [`run`].
pub fn run_on(
    experiment: &Experiment,
    virtual_time: &Simulation,
    observer: &mut dyn Observer,
) -> Result<Results, Error> {
    let started_at = Instant::now();
    let Simulation { jobs, cores, engine, parallel_threshold, forecast, .. } = virtual_time;
    let (spec, schemes) = (&experiment.spec, &experiment.schemes);
    let run_scheme = |index: usize, observer: &mut dyn Observer| {
        let mut run = SchemeRun::new(experiment, &schemes[index], *engine)?;
        if virtual_time.trace_paths {
            run.network.enable_path_trace();
        }
        let limits = (cores, *parallel_threshold);
        let control_flow = run.execute((index, schemes.len()), limits, forecast.as_deref(), observer);
        debug_assert_eq!(run.network.view().audit(), Ok(()), "{}", schemes[index].label);
        Ok((run.snapshot(index), control_flow))
    };
    let (mut snapshots, mut is_partial) = (Vec::new(), false);
    if *jobs > 1 && schemes.len() > 1 && cores.total() > 1 {
        let labels: Vec<&str> = schemes.iter().map(|scheme| scheme.label.as_str()).collect();
        let (done, is_complete) =
            parallel_schemes::run_schemes(&labels, (*jobs, cores), observer, run_scheme)?;
        (snapshots, is_partial) = (done, !is_complete);
    } else {
        for index in 0..schemes.len() {
            let (snapshot, control_flow) = run_scheme(index, observer)?;
            is_partial = control_flow.is_break();
            if observer.wants_snapshot(index) {
                observer.snapshot(snapshot.clone());
            }
            snapshots.push(snapshot);
            if is_partial {
                break;
            }
        }
    }
    let wall_s = started_at.elapsed().saturating_sub(observer.paused()).as_secs_f64();
    let header = RunHeader { experiment: spec.name.clone(), seed: spec.seed, wall_s, partial: is_partial };
    Ok(Results::from_parts(header, snapshots))
}
