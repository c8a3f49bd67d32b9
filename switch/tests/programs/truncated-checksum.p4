// The payload of a checksum ends where the packet is truncated, counted from the payload's first byte.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<16> ck; }
struct H { h_t h; }
struct M {}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply { s.egress_spec = 2; truncate(4); } }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control C(inout H h, inout M m) { apply { update_checksum_with_payload(true, { 16w0 }, h.h.ck, HashAlgorithm.csum16); } }
control D(packet_out p, in H h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
