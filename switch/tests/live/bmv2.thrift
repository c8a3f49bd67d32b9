// The calls of simple_switch's Thrift services that the live comparison makes.

struct Exact { 1: binary key }
struct Lpm { 1: binary key, 2: i32 prefix_length }
struct Ternary { 1: binary key, 2: binary mask }
// `kind` selects the field that is set: 0 for exact, 1 for lpm, 2 for ternary.
struct Match { 1: i32 kind, 2: optional Exact exact, 3: optional Lpm lpm, 4: optional Ternary ternary }
struct Options { 1: optional i32 priority }
struct Count { 1: i64 bytes, 2: i64 packets }
struct MeterRate { 1: double units_per_micros, 2: i32 burst_size }
struct Session { 1: optional i32 port, 2: optional i32 mgid }
exception Refused { 1: i32 code }

service Standard {
  i32 bm_mt_add_entry(1: i32 cxt, 2: string table, 3: list<Match> key, 4: string action, 5: list<binary> data, 6: Options options)
    throws (1: Refused refused)
  void bm_mt_set_default_action(1: i32 cxt, 2: string table, 3: string action, 4: list<binary> data) throws (1: Refused refused)
  void bm_mt_delete_entry(1: i32 cxt, 2: string table, 3: i32 handle) throws (1: Refused refused)
  void bm_mt_modify_entry(1: i32 cxt, 2: string table, 3: i32 handle, 4: string action, 5: list<binary> data)
    throws (1: Refused refused)
  i32 bm_mt_act_prof_add_member(1: i32 cxt, 2: string profile, 3: string action, 4: list<binary> data) throws (1: Refused refused)
  void bm_mt_act_prof_modify_member(1: i32 cxt, 2: string profile, 3: i32 member, 4: string action, 5: list<binary> data)
    throws (1: Refused refused)
  i32 bm_mt_act_prof_create_group(1: i32 cxt, 2: string profile) throws (1: Refused refused)
  void bm_mt_act_prof_add_member_to_group(1: i32 cxt, 2: string profile, 3: i32 member, 4: i32 group) throws (1: Refused refused)
  void bm_mt_act_prof_remove_member_from_group(1: i32 cxt, 2: string profile, 3: i32 member, 4: i32 group)
    throws (1: Refused refused)
  i32 bm_mt_indirect_ws_add_entry(1: i32 cxt, 2: string table, 3: list<Match> key, 4: i32 group, 5: Options options)
    throws (1: Refused refused)
  void bm_mt_indirect_ws_modify_entry(1: i32 cxt, 2: string table, 3: i32 handle, 4: i32 group) throws (1: Refused refused)
  void bm_mt_indirect_delete_entry(1: i32 cxt, 2: string table, 3: i32 handle) throws (1: Refused refused)
  Count bm_mt_read_counter(1: i32 cxt, 2: string table, 3: i32 handle) throws (1: Refused refused)
  Count bm_counter_read(1: i32 cxt, 2: string counter, 3: i32 index) throws (1: Refused refused)
  void bm_meter_set_rates(1: i32 cxt, 2: string meter, 3: i32 index, 4: list<MeterRate> rates) throws (1: Refused refused)
  i64 bm_register_read(1: i32 cxt, 2: string array, 3: i32 index) throws (1: Refused refused)
  void bm_register_write(1: i32 cxt, 2: string array, 3: i32 index, 4: i64 value) throws (1: Refused refused)
}

service Replication {
  i32 bm_mc_mgrp_create(1: i32 cxt, 2: i32 group) throws (1: Refused refused)
  i32 bm_mc_node_create(1: i32 cxt, 2: i32 rid, 3: string ports, 4: string lags) throws (1: Refused refused)
  void bm_mc_node_associate(1: i32 cxt, 2: i32 group, 3: i32 node) throws (1: Refused refused)
  void bm_mc_node_update(1: i32 cxt, 2: i32 node, 3: string ports, 4: string lags) throws (1: Refused refused)
}

service Target {
  void mirroring_session_add(1: i32 session, 2: Session config) throws (1: Refused refused)
  i32 set_egress_priority_queue_depth(1: i32 port, 2: i32 priority, 3: i32 packets)
  i32 set_egress_queue_depth(1: i32 port, 2: i32 packets)
  i32 set_egress_priority_queue_rate(1: i32 port, 2: i32 priority, 3: i64 packets_per_second)
  i32 set_egress_queue_rate(1: i32 port, 2: i64 packets_per_second)
}
