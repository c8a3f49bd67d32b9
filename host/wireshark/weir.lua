-- Wireshark dissector of Weir (docs/wireshark.md says how to load it, docs/wire.md what the fields mean).
--
--   tshark -X lua_script:host/wireshark/weir.lua -r capture.pcap
--
-- Runs on Lua 5.2 to 5.4 and Wireshark 3.6 or later.

local WEIR_PORT = 22341
local VERSION = 1
local HEADER_LEN = 24
local MAX_HOPS = 8
local RECORD_LEN = 8
-- HPCC++ puts the switch's id and the port in front of each record.
local LINK_ID_LEN = 4
-- And, behind them, the share and the bytes sent of the packet's own queue.
local QUEUE_INFO_LEN = 4
local TX_UNIT = 128
-- Where the queue is time: ticks of the switch's clock.
local SOJOURN_UNIT = 4
local QUEUE_UNIT = 80
local QUEUE_SATURATED = 65535

local KINDS = {
    [0] = "DATA", [1] = "ACK", [2] = "NACK", [3] = "CNP",
    [4] = "PROBE", [5] = "PROBE_REPLY", [6] = "RATE", [7] = "POLICY",
}
local DATA, ACK, NACK = 0, 1, 2
-- Forward packets have Weir's port as destination, the others as source.
local FORWARD = { [0] = true, [4] = true, [7] = true }

local RATES = {
    [0] = "unknown", [1] = "1 Mbit/s", [2] = "5 Mbit/s", [3] = "10 Mbit/s", [4] = "20 Mbit/s",
    [5] = "50 Mbit/s", [6] = "100 Mbit/s", [7] = "1 Gbit/s", [8] = "10 Gbit/s", [9] = "25 Gbit/s",
    [10] = "40 Gbit/s", [11] = "50 Gbit/s", [12] = "100 Gbit/s", [13] = "200 Gbit/s",
    [14] = "400 Gbit/s", [15] = "800 Gbit/s",
}

local weir = Proto("weir", "Weir")

weir.prefs.grant_echoes_path = Pref.bool("The grant of an ACK echoes the path of the DATA", true,
    "Off for schemes that use the field for a window or a rate (Rx-HPCC, RoCC, RCP)")
weir.prefs.grant_is_delay = Pref.bool("The grant of an ACK is the time at the receiver", false,
    "On for Swift: ns between the arrival of the DATA and the departure of the ACK")

local f = {
    version = ProtoField.uint8("weir.version", "Version", base.DEC, nil, 0xf0),
    kind = ProtoField.uint8("weir.kind", "Kind", base.DEC, KINDS, 0x0f),
    flags = ProtoField.uint8("weir.flags", "Flags", base.HEX),
    start = ProtoField.bool("weir.flags.start", "START of message", 8, nil, 0x01),
    finish = ProtoField.bool("weir.flags.end", "END of message", 8, nil, 0x02),
    telemetry = ProtoField.bool("weir.flags.telemetry", "TELEMETRY wanted", 8, nil, 0x04),
    ecn_echo = ProtoField.bool("weir.flags.ecn_echo", "ECN_ECHO", 8, nil, 0x08),
    lookahead = ProtoField.bool("weir.flags.lookahead", "LOOKAHEAD", 8, nil, 0x10),
    retransmit = ProtoField.bool("weir.flags.retransmit", "RETRANSMIT", 8, nil, 0x20),
    escape = ProtoField.bool("weir.flags.escape", "ESCAPE", 8, nil, 0x40),
    express = ProtoField.bool("weir.flags.express", "EXPRESS", 8, nil, 0x80),
    tokens = ProtoField.uint8("weir.tokens", "Deflection tokens", base.DEC, nil, 0xf0),
    subflow = ProtoField.uint8("weir.subflow", "Subflow", base.DEC, nil, 0x0f),
    int_format = ProtoField.uint8("weir.int_format", "Record format", base.HEX),
    format_link = ProtoField.bool("weir.int_format.link", "LINK ids in front of records", 8, nil, 0x01),
    format_congested = ProtoField.bool("weir.int_format.congested", "CONGESTED ports only", 8, nil, 0x04),
    format_queue = ProtoField.bool("weir.int_format.queue", "QUEUE share and bytes in front of records", 8, nil, 0x08),
    format_sojourn = ProtoField.bool("weir.int_format.sojourn", "SOJOURN time instead of queue", 8, nil, 0x02),
    format_unused = ProtoField.uint8("weir.int_format.unused", "Unused", base.HEX, nil, 0x70),
    format_own = ProtoField.bool("weir.int_format.own", "OWN records of the program", 8, nil, 0x80),
    own_record = ProtoField.bytes("weir.int.own", "Record of the program"),
    concurrency = ProtoField.uint16("weir.concurrency", "Concurrency (N)", base.DEC),
    int_hops = ProtoField.uint16("weir.int_hops", "Hops recorded", base.DEC, nil, 0xf000),
    path_id = ProtoField.uint16("weir.path_id", "Path id", base.HEX, nil, 0x0fff),
    message = ProtoField.uint32("weir.message", "Message", base.DEC),
    seq = ProtoField.uint32("weir.seq", "Sequence", base.DEC),
    stamp = ProtoField.uint32("weir.stamp", "Sender's clock (ns)", base.DEC),
    grant = ProtoField.uint32("weir.grant", "Grant", base.DEC),

    record = ProtoField.bytes("weir.int", "Record"),
    hop = ProtoField.uint8("weir.int.hop", "Hop on the data path", base.DEC),
    switch = ProtoField.uint16("weir.int.switch", "Switch", base.DEC),
    port = ProtoField.uint16("weir.int.port", "Port", base.DEC),
    rate = ProtoField.uint32("weir.int.rate", "Rate", base.DEC, RATES, 0xf0000000),
    timestamp = ProtoField.uint32("weir.int.timestamp", "Timestamp", base.DEC, nil, 0x0ffffff0),
    tx_units = ProtoField.uint24("weir.int.tx_units", "Sent, in 128 bytes", base.DEC, nil, 0x0fffff),
    tx_bytes = ProtoField.uint32("weir.int.tx_bytes", "Sent, bytes", base.DEC),
    queue_units = ProtoField.uint16("weir.int.queue_units", "Queue, in 80 bytes", base.DEC),
    queue_bytes = ProtoField.uint32("weir.int.queue_bytes", "Queue, bytes", base.DEC),
    share = ProtoField.uint32("weir.int.share", "Share of the queue, in 4096ths", base.DEC, nil, 0xfff00000),
    queue_sent_units = ProtoField.uint32("weir.int.queue_sent_units", "Sent by the queue, in 128 B", base.DEC, nil, 0xfffff),
    sojourn_units = ProtoField.uint16("weir.int.sojourn_units", "Time queued, in 4 ticks", base.DEC),
    sojourn_ticks = ProtoField.uint32("weir.int.sojourn_ticks", "Time queued, ticks", base.DEC),

    payload = ProtoField.bytes("weir.payload", "Payload"),
    payload_len = ProtoField.uint32("weir.payload_len", "Payload length", base.DEC),
    receiver_delay = ProtoField.uint32("weir.receiver_delay", "Time at the receiver (ns)", base.DEC),
    data_path_id = ProtoField.uint16("weir.data_path_id", "Path id of the DATA", base.HEX),
    same_path = ProtoField.bool("weir.same_path", "ACK took the path of the DATA"),
    request_in = ProtoField.framenum("weir.request_in", "Acknowledges", base.NONE, frametype.REQUEST),
    response_in = ProtoField.framenum("weir.response_in", "Acknowledged in", base.NONE, frametype.RESPONSE),
    response_time = ProtoField.relative_time("weir.response_time", "Time from DATA to ACK"),
}
weir.fields = f

local e = {
    short = ProtoExpert.new("weir.short", "Shorter than its header", expert.group.MALFORMED,
        expert.severity.ERROR),
    bad_version = ProtoExpert.new("weir.bad_version", "Unknown version", expert.group.PROTOCOL,
        expert.severity.ERROR),
    bad_kind = ProtoExpert.new("weir.bad_kind", "Unknown kind", expert.group.PROTOCOL,
        expert.severity.ERROR),
    too_many_hops = ProtoExpert.new("weir.too_many_hops", "More than eight records",
        expert.group.PROTOCOL, expert.severity.ERROR),
    hops_length = ProtoExpert.new("weir.hops_length", "The records do not fit the packet",
        expert.group.MALFORMED, expert.severity.ERROR),
    wrong_port = ProtoExpert.new("weir.wrong_port", "Port 22341 is on the wrong side for this kind",
        expert.group.PROTOCOL, expert.severity.WARN),
    empty_data = ProtoExpert.new("weir.empty_data", "DATA without payload", expert.group.PROTOCOL,
        expert.severity.WARN),
    unused = ProtoExpert.new("weir.reserved_set", "Reserved bits are not zero", expert.group.PROTOCOL,
        expert.severity.NOTE),
    saturated = ProtoExpert.new("weir.queue_saturated", "The queue is at least this long",
        expert.group.PROTOCOL, expert.severity.NOTE),
    retransmit = ProtoExpert.new("weir.retransmission", "Sent before", expert.group.SEQUENCE,
        expert.severity.NOTE),
    nack = ProtoExpert.new("weir.gap", "The receiver saw a gap", expert.group.SEQUENCE,
        expert.severity.NOTE),
    other_path = ProtoExpert.new("weir.other_path", "DATA and ACK took different paths",
        expert.group.SEQUENCE, expert.severity.WARN),
}
weir.experts = {
    e.short, e.bad_version, e.bad_kind, e.too_many_hops, e.hops_length, e.wrong_port, e.empty_data,
    e.unused, e.saturated, e.retransmit, e.nack, e.other_path,
}

-- DATA by what acknowledges it, and the other way round: what the first pass over a capture finds.
local data_by_end, request_of, response_of

function weir.init()
    data_by_end, request_of, response_of = {}, {}, {}
end

-- A packet's place in its message: who sends DATA to whom, which message, the byte behind it.
local function place(sender, receiver, message, behind)
    return string.format("%s>%s/%d/%d", tostring(sender), tostring(receiver), message, behind)
end

local function dissect_flags(range, tree)
    local flags = tree:add(f.flags, range)
    for _, field in ipairs({ f.start, f.finish, f.telemetry, f.ecn_echo, f.lookahead, f.retransmit, f.escape, f.express }) do
        flags:add(field, range)
    end
    return flags
end

-- Length of a program's own records: the low four bits of the format are words of 4 bytes, less one.
local function own_record_len(format)
    return (format:bitfield(4, 4) + 1) * 4
end

local function dissect_format(range, tree)
    local format = tree:add(f.int_format, range)
    if range:bitfield(0, 1) == 1 then
        format:add(f.format_own, range)
        format:append_text(string.format(": %d B a record", own_record_len(range)))
        return format
    end
    for _, field in ipairs({ f.format_link, f.format_sojourn, f.format_congested, f.format_queue, f.format_unused }) do
        format:add(field, range)
    end
    return format
end

-- A record. `hop` is its place on the data path, the first hop after the sender being 1.
local function dissect_record(range, tree, hop, sojourn, queue_len)
    local link_len = range:len() - RECORD_LEN - queue_len
    local entry = range(link_len + queue_len, RECORD_LEN)
    local tx, queue = entry:bitfield(28, 20), entry:bitfield(48, 16)
    local rate = RATES[entry:bitfield(0, 4)]
    local sub = tree:add(f.record, range)
    local waits = string.format(sojourn and "queued for %d ticks" or "queue %d B",
        queue * (sojourn and SOJOURN_UNIT or QUEUE_UNIT))
    sub:set_text(string.format("Hop %d: %s, sent %d B, %s", hop, rate, tx * TX_UNIT, waits))
    sub:add(f.hop, range, hop):set_generated()
    if link_len > 0 then
        sub:add(f.switch, range(0, 2))
        sub:add(f.port, range(2, 2))
    end
    if queue_len > 0 then
        sub:add(f.share, range(link_len, 4))
        sub:add(f.queue_sent_units, range(link_len, 4))
    end
    sub:add(f.rate, entry(0, 4))
    sub:add(f.timestamp, entry(0, 4))
    sub:add(f.tx_units, entry(3, 3))
    sub:add(f.tx_bytes, entry(3, 3), tx * TX_UNIT):set_generated()
    local units = sub:add(sojourn and f.sojourn_units or f.queue_units, entry(6, 2))
    if sojourn then
        sub:add(f.sojourn_ticks, entry(6, 2), queue * SOJOURN_UNIT):set_generated()
    else
        sub:add(f.queue_bytes, entry(6, 2), queue * QUEUE_UNIT):set_generated()
    end
    if queue == QUEUE_SATURATED then
        units:add_proto_expert_info(e.saturated)
    end
end

-- All records; returns their length, or nil if they do not fit. They lie newest first: what DATA
-- gathered (and the receiver copied to its ACK) has the last hop in front, what an ACK gathered
-- itself, on its way back, the first.
local function dissect_records(tvb, tree, hops, gathered_by_ack)
    local format = tvb(3, 1)
    local sojourn = format:bitfield(6, 1) == 1
    local own = format:bitfield(0, 1) == 1
    local queue_len = format:bitfield(4, 1) * QUEUE_INFO_LEN
    local each = own and own_record_len(format) or RECORD_LEN + format:bitfield(7, 1) * LINK_ID_LEN + queue_len
    if HEADER_LEN + hops * each > tvb:len() then
        return nil
    end
    for i = 1, hops do
        local hop = gathered_by_ack and i or hops + 1 - i
        local range = tvb(HEADER_LEN + (i - 1) * each, each)
        if own then
            tree:add(f.own_record, range):prepend_text(string.format("Hop %d: ", hop))
        else
            dissect_record(range, tree, hop, sojourn, queue_len)
        end
    end
    return hops * each
end

-- What joins a DATA packet and the ACK that acknowledges up to its end.
local function dissect_pair(tvb, pinfo, tree, kind, payload_len)
    local message, seq = tvb(8, 4):uint(), tvb(12, 4):uint()
    local number = pinfo.number
    if kind == DATA then
        if not pinfo.visited then
            local behind = (seq + payload_len) % 0x100000000
            local key = place(pinfo.net_src, pinfo.net_dst, message, behind)
            -- Of a packet that was sent again the first counts.
            data_by_end[key] = data_by_end[key] or { number = number, time = pinfo.rel_ts }
        end
        if response_of[number] then
            tree:add(f.response_in, response_of[number]):set_generated()
        end
    elseif kind == ACK then
        if not pinfo.visited then
            local data = data_by_end[place(pinfo.net_dst, pinfo.net_src, message, seq)]
            if data then
                request_of[number] = data
                response_of[data.number] = response_of[data.number] or number
            end
        end
        local data = request_of[number]
        if data then
            tree:add(f.request_in, data.number):set_generated()
            local took = pinfo.rel_ts - data.time
            local seconds = math.floor(took)
            local time = NSTime.new(seconds, math.floor((took - seconds) * 1e9 + 0.5))
            tree:add(f.response_time, time):set_generated()
        end
    end
end

-- Whether an ACK took the way of the DATA it acknowledges. At the receiver the ACK has not met a
-- switch yet, and there is nothing to compare.
local function dissect_paths(tvb, tree)
    if not weir.prefs.grant_echoes_path then
        return
    end
    local own, echoed = tvb:range(6, 2):bitfield(4, 12), tvb:range(20, 4):bitfield(20, 12)
    tree:add(f.data_path_id, tvb(20, 4), echoed):set_generated()
    if own == 0 and echoed ~= 0 then
        return
    end
    local same = tree:add(f.same_path, own == echoed)
    same:set_generated()
    if own ~= echoed then
        same:add_proto_expert_info(e.other_path)
    end
end

local FLAG_NAMES = { "START", "END", "TELEMETRY", "ECN_ECHO", "LOOKAHEAD", "RETRANSMIT", "ESCAPE", "EXPRESS" }

local function info(tvb, kind, hops, payload_len)
    local text = string.format("%s msg=%d seq=%d", KINDS[kind], tvb(8, 4):uint(), tvb(12, 4):uint())
    if kind == DATA then
        text = text .. string.format(" len=%d", payload_len)
    end
    text = text .. string.format(" hops=%d", hops)
    if kind == ACK or kind == NACK then
        text = text .. string.format(" N=%d", tvb(4, 2):uint())
    end
    text = text .. string.format(" path=0x%03x", tvb(6, 2):bitfield(4, 12))
    local set = {}
    for i, name in ipairs(FLAG_NAMES) do
        if tvb(1, 1):bitfield(8 - i, 1) == 1 then
            set[#set + 1] = name
        end
    end
    if #set > 0 then
        text = text .. " [" .. table.concat(set, ",") .. "]"
    end
    return text
end

local function malformed(pinfo, item, which, text)
    item:add_proto_expert_info(which)
    pinfo.cols.info = "Malformed: " .. text
end

function weir.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "Weir"
    local tree = root:add(weir, tvb())
    if tvb:len() < HEADER_LEN then
        malformed(pinfo, tree, e.short, string.format("%d bytes", tvb:len()))
        return tvb:len()
    end

    local version, kind = tvb(0, 1):bitfield(0, 4), tvb(0, 1):bitfield(4, 4)
    local hops = tvb(6, 2):bitfield(0, 4)
    local version_item = tree:add(f.version, tvb(0, 1))
    local kind_item = tree:add(f.kind, tvb(0, 1))
    local flags = tree and dissect_flags(tvb(1, 1), tree)
    tree:add(f.tokens, tvb(2, 1))
    tree:add(f.subflow, tvb(2, 1))
    local format = dissect_format(tvb(3, 1), tree)
    tree:add(f.concurrency, tvb(4, 2))
    local hops_item = tree:add(f.int_hops, tvb(6, 2))
    tree:add(f.path_id, tvb(6, 2))
    tree:add(f.message, tvb(8, 4))
    tree:add(f.seq, tvb(12, 4))
    tree:add(f.stamp, tvb(16, 4))
    tree:add(f.grant, tvb(20, 4))

    if version ~= VERSION then
        malformed(pinfo, version_item, e.bad_version, string.format("version %d", version))
        return tvb:len()
    end
    if not KINDS[kind] then
        malformed(pinfo, kind_item, e.bad_kind, string.format("kind %d", kind))
        return tvb:len()
    end
    if hops > MAX_HOPS then
        malformed(pinfo, hops_item, e.too_many_hops, string.format("%d hops", hops))
        return tvb:len()
    end
    local gathered_by_ack = kind ~= DATA and tvb(1, 1):bitfield(5, 1) == 1
    local records_len = dissect_records(tvb, tree, hops, gathered_by_ack)
    if not records_len then
        malformed(pinfo, hops_item, e.hops_length, string.format("%d hops do not fit", hops))
        return tvb:len()
    end

    local payload_at = HEADER_LEN + records_len
    -- Of a capture that was cut short, the length that was on the wire.
    local payload_len = tvb:reported_len() - payload_at
    tree:add(f.payload_len, payload_len):set_generated()
    if tvb:len() > payload_at then
        tree:add(f.payload, tvb(payload_at))
    end

    pinfo.cols.info = info(tvb, kind, hops, payload_len)
    tree:append_text(", " .. info(tvb, kind, hops, payload_len))
    local weir_port = FORWARD[kind] and pinfo.dst_port or pinfo.src_port
    if weir_port ~= WEIR_PORT then
        kind_item:add_proto_expert_info(e.wrong_port)
    end
    if tvb(3, 1):bitfield(0, 6) ~= 0 then
        format:add_proto_expert_info(e.unused)
    end
    if kind == DATA and payload_len == 0 then
        tree:add_proto_expert_info(e.empty_data)
    end
    if kind == DATA and tvb(1, 1):bitfield(2, 1) == 1 then
        flags:add_proto_expert_info(e.retransmit)
    end
    if kind == NACK then
        kind_item:add_proto_expert_info(e.nack)
    end
    if (kind == ACK or kind == NACK) and weir.prefs.grant_is_delay then
        tree:add(f.receiver_delay, tvb(20, 4)):set_generated()
    elseif kind == ACK or kind == NACK then
        dissect_paths(tvb, tree)
    end
    dissect_pair(tvb, pinfo, tree, kind, payload_len)
    return tvb:len()
end

DissectorTable.get("udp.port"):add(WEIR_PORT, weir)

-- Of two ports Wireshark asks the lower one's dissector first, and an entropy port may be anybody's.
-- With the preference udp.try_heuristic_first this one comes before.
weir:register_heuristic("udp", function(tvb, pinfo, root)
    if pinfo.src_port ~= WEIR_PORT and pinfo.dst_port ~= WEIR_PORT then
        return false
    end
    if tvb:len() < HEADER_LEN or tvb(0, 1):bitfield(0, 4) ~= VERSION or not KINDS[tvb(0, 1):bitfield(4, 4)] then
        return false
    end
    weir.dissector(tvb, pinfo, root)
    return true
end)
