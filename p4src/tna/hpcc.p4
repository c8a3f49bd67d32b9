// ../hpcc.p4 for Tofino: every switch writes an INT record into data packets and probes that ask for it.
#include "include/tofino.p4"
#include "../include/weir.p4"
#include "../include/hpcc_egress.p4"

// The record's txBytes is known when Depart has counted the packet.
control HpccTnaEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    HpccEgress() egress;
    RecordTxBytes() record_tx_bytes;

    apply {
        egress.apply(hdr, meta, target);
        if (hdr.record.isValid()) {
            record_tx_bytes.apply(hdr, meta.tx_before);
        }
    }
}

#define PROGRAM_EGRESS HpccTnaEgress
#define PROGRAM_ANNOTATIONS @weir_telemetry("data")
#include "include/main.p4"
