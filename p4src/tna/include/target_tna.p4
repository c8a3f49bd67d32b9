// What only TNA (Tofino 1 and 2) has; the counterpart of ../../include/target_v1model.p4. docs/tofino.md says what differs
// for controllers and hosts.
#ifndef WEIR_TARGET_P4
#define WEIR_TARGET_P4

#include <core.p4>
#if __TARGET_TOFINO__ == 1
#include <tna.p4>
#else
#include <t2na.p4>
#endif

// Per-packet data of the architecture, under v1model's names. main.p4 fills it in and reads it.
struct target_t {
    port_t  ingress_port;
    bit<32> time;                    // nanoseconds
    // Ingress only.
    bit<16> parser_error;
    bit<1>  checksum_error;
    bit<32> packet_length;           // 0: ingress does not know it
    port_t  egress_spec;
    bit<3>  priority;
    bit<16> mcast_grp;
    bit<3>  drop_ctl;                // 1: drop
    bit<4>  random;                  // uniform
    // Egress only.
    port_t  egress_port;
    bit<19> deq_qdepth;              // cells left in the queue
}

action mark_to_drop(inout target_t target) {
    target.drop_ctl = 1;
}

// The first byte of every packet that enters egress, and of those that come back to ingress by recirculation.
typedef bit<8> carries_t;
const carries_t CARRIES_FRAME  = 0;
const carries_t CARRIES_OPAQUE = 1;          // a frame that egress does not parse: from or to the controller
const carries_t CARRIES_REPORT = 2;

// A port in a header for the controller, in two bytes: at the end, where the intrinsic metadata has it.
#define PADDED_PORT(name) bit<7> pad; port_t name;

// From ingress to egress, in front of every packet.
header bridge_t {
    carries_t carries;
    bit<16>   ingress_port;
}

// From egress to ingress, in front of what is left of a mirrored packet (../controls/report.p4).
header report_t {
    carries_t carries;
    bit<16>   port;
    bit<16>   depth;                 // in its queue, in units of 80 bytes
}
#define TARGET_HEADERS bridge_t bridge; report_t report;

#define TARGET_METADATA \
    bit<1>  checksum_error; \
    bit<16> frame_bytes;             /* that leave the port, a pushed record included */ \
    bit<16> ip_room;                 /* bytes of the frame behind its Ethernet header */ \
    bit<8>  ecn_ramp;                /* of the port's profile */ \
    bit<32> tx_before;               /* sent by the port before this packet */ \
    MirrorId_t report_session;       /* of a report, and what is in it */ \
    report_t report;

// After the IPv4 header is extracted: the parser that verifies the checksum defines it (controls_tna.p4).
#define VERIFY_IPV4_IN_PARSER CHECK_IPV4
#define PARSER_FAILED(target) ((target).parser_error != PARSER_ERROR_OK)
// Below 20, bit by bit. Ingress does not know the length of a frame: egress compares (main.p4).
#define LENGTH_IS_WRONG(ipv4, target) ((ipv4).total_len[15:5] == 0 \
    && ((ipv4).total_len[4:4] == 0 || (ipv4).total_len[3:2] == 0))

// The low 24 bits of nanoseconds.
#define TIMESTAMP(target) ((target).time[23:0])

// Hashes: all bits of a CRC; MemberIndex and TreeIndex (member_index.p4) take it modulo a range. Each call needs a unit.
typedef bit<8> hash_range_t;
const hash_range_t WHOLE_HASH = 0;
#define CRC32_UNIT(name) Hash<bit<32>>(HashAlgorithm_t.CRC32) name;
#define CRC32(unit, result, fields, count) result = unit.get(fields)

// The meter of a table's entries, in bytes; colour 0 is what it lets through (RFC 2698).
typedef bit<8> colour_t;
#define FLOOD_METER(name) DirectMeter(MeterType_t.BYTES) name
#define READ_METER(name, colour) colour = name.execute()
#define METER_GREEN 0

// Counters of packets. A counter serves one control: each that counts events has its own, all with the same indices.
#define PACKET_COUNTER(index, count, name) Counter<bit<32>, index>(count, CounterType_t.PACKETS) name
#define GLOBAL_EVENT_COUNTER
#define LOCAL_EVENT_COUNTER PACKET_COUNTER(event_t, EVENTS, events);

const MirrorType_t REPORT_MIRROR = 1;

// What weir.p4 includes of the controls that differ between targets.
#define TARGET_CONTROLS "../tna/include/controls_tna.p4"
#define INT_PUSH_CONTROL "../tna/controls/int_push.p4"

#endif
