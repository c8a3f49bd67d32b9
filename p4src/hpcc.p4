// HPCC: every switch writes an INT record into data packets and probes that request it.
//
//   sender --- data, TELEMETRY ---> [switch: + record] ---> [switch: + record] ---> receiver
//          <-- ACK with the records, copied by the receiver ----------------------
//
// The record is the port's state as this packet leaves it: time, bytes sent before it, bytes queued
// behind it (Li et al., HPCC, SIGCOMM 2019, section 3.1).
#include "include/weir.p4"
#include "include/hpcc_egress.p4"

@weir_telemetry("data")
V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), HpccEgress(), WeirComputeChecksum(), WeirDeparser()) main;
