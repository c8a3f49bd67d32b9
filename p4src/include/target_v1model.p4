// Definitions for v1model (BMv2 and Weir's own switch). Their counterpart for Tofino is ../tna/include/target_tna.p4;
// docs/tofino.md lists the differences, control by control.
#ifndef WEIR_TARGET_P4
#define WEIR_TARGET_P4

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

// Per-packet data of the architecture.
typedef standard_metadata_t target_t;

// After the IPv4 header is extracted: nothing, since v1model verifies checksums after the parser.
#define VERIFY_IPV4_IN_PARSER
#define PARSER_FAILED(target) ((target).parser_error != error.NoError)
#define LENGTH_IS_WRONG(ipv4, target) ((ipv4).total_len < IPV4_BYTES \
    || (bit<32>)(ipv4).total_len + ETHERNET_BYTES > (target).packet_length)

// A port in a header for the controller, in two bytes.
#define PADDED_PORT(name) port_t name; bit<7> pad;

// Ticks since the switch started: microseconds on BMv2, nanoseconds in virtual time. In egress, the low 24 bits.
#define TIMESTAMP(target) ((target).egress_global_timestamp[23:0])
// In ingress, all 48 bits.
#define INGRESS_TIME_48(target) ((target).ingress_global_timestamp)

// Time that the packet was queued, in the same ticks.
#define SOJOURN(target) ((target).deq_timedelta)
// In egress, the low 32 bits, for state that outlasts a packet's time in the network.
#define EGRESS_TIME_32(target) ((target).egress_global_timestamp[31:0])

// In ingress: sends a copy of the packet as it arrived to the clone session whose number is its ingress port; the
// controller binds it to that port. The copy keeps the metadata of field list 1. In egress its instance type is 1
// (simple_switch.h, PKT_INSTANCE_TYPE_INGRESS_CLONE).
#define CLONE_BACK(target) clone_preserving_field_list(CloneType.I2E, (bit<32>)(target).ingress_port, 1)
#define IS_CLONE(target) ((target).instance_type == 1)

// deq_qdepth counts the packets in this packet's own priority queue after the packet was removed
// (BMv2, simple_switch.cpp: the size is read after the pop). Under strict priority a packet of the
// lowest priority leaves only when all higher queues are empty; so for it, and only for it, 0 means
// that the port is empty.
#define PORT_IS_EMPTY(target) ((target).deq_qdepth == 0 && (target).priority == 0)

// Hashes: a CRC of fields, modulo count. All 32 bits of a CRC-32 are count = 2^32. CRC32_UNIT declares a hash unit,
// which v1model does not need.
typedef bit<64> hash_range_t;
const hash_range_t WHOLE_HASH = 1 << 32;
#define CRC32_UNIT(name)
#define CRC32(unit, result, fields, count) hash(result, HashAlgorithm.crc32, 32w0, fields, count)
#define CRC16(result, fields, count) hash(result, HashAlgorithm.crc16, 16w0, fields, count)

// One 32-bit word, uniform.
#define RANDOM_WORD(result) random(result, 32w0, 32w0xFFFF_FFFF)
// 16 bits, uniform below a count that is not 0.
#define RANDOM_BELOW(result, count) random(result, 16w0, (count) - 1)

// The meter of a table's entries, in bytes; colour 0, green, is within the rates (RFC 2698).
typedef bit<2> colour_t;
#define FLOOD_METER(name) direct_meter<colour_t>(MeterType.bytes) name
#define READ_METER(name, colour) name.read(colour)
#define METER_GREEN 0

// Counters of packets. One counter of events serves all controls, in ingress and egress.
#define PACKET_COUNTER(index, count, name) counter<index>(count, CounterType.packets) name
#define GLOBAL_EVENT_COUNTER PACKET_COUNTER(event_t, EVENTS, events);
#define LOCAL_EVENT_COUNTER

// State of a port. No register holds a tunable value: P4Runtime on BMv2 cannot write registers.
// (A macro, because p4c refuses a typedef of a register.)
#define PORT_STATE(bits, name) register<bit<bits>, port_t>(PORTS) name
// State that does not belong to a port: a register with `count` cells.
#define CELLS(bits, count, name) register<bit<bits>, bit<32>>(count) name

// Included by weir.p4: the controls that differ between targets.
#define TARGET_CONTROLS "controls_v1model.p4"
#define INT_PUSH_CONTROL "../controls/int_push.p4"

#endif
