//! The switch without a socket or a clock: programs, pipelines, traffic manager and P4Runtime's entities.

mod arith;
mod assertions;
mod bmv2_json;
mod control;
mod engine;
mod engines;
mod fuzz;
mod headers;
mod loader;
mod loops;
mod one_packet;
mod paths;
mod stf_profiles;
mod tables;
