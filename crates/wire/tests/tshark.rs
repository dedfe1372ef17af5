//! What we emit, as read by a program that we did not write.
//!
//! Needs `tshark` (Debian: `apt-get install tshark`), and fails without it: a check that is skipped
//! when its judge is absent says nothing.

mod common;

use core::net::Ipv4Addr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rdma::{PKey, Psn, QKey, Qpn, Time};
use wire::cm::mra::About;
use wire::cm::{Mad, Message, brief, ip, rej, rep, req};
use wire::ethernet::{self, Address, EtherType};
use wire::frame::Ip;
use wire::opcode::Service;
use wire::pcapng::Direction;
use wire::{Frame, Opcode, arp, deth, pause, pcap, pcapng, pfc, roce, vlan};

use common::{HOST1, HOST2, frame, ipv4, ipv6};

/// Dissectors that guess at payloads: what an application sends is none of these tests' matter.
const GUESSERS: [&str; 9] = [
    "fcoib",
    "infiniband.eoib",
    "infiniband_sdp",
    "iser",
    "lnet",
    "nvme-rdma",
    "rpcordma",
    "smb_direct",
    "smc",
];

/// What Wireshark says of one packet: each field's first value, if it has the field.
type Row = Vec<Option<String>>;

/// Runs tshark over a capture and returns `fields` of each packet.
///
/// # Panics
/// If a packet is malformed or has any other remark of an expert, wrong checksums among them.
fn tshark(name: &str, capture: &[u8], fields: &[&str]) -> Vec<Row> {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, capture).unwrap();
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]);
    for protocol in GUESSERS {
        command.args(["--disable-protocol", protocol]);
    }
    command.args(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
    for field in ["_ws.malformed", "_ws.expert.message"].iter().chain(fields) {
        command.args(["-e", field]);
    }
    command.arg("-r").arg(&file);
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run tshark: {error}; this test needs it (Debian: apt-get install tshark)")
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark: {}: {stderr}", output.status);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let rows = stdout.lines().map(|line| {
        let mut values = line.split('|').map(|value| (!value.is_empty()).then(|| value.to_owned()));
        let remarks: Row = values.by_ref().take(2).collect();
        assert_eq!(remarks, [None, None], "{line}");
        values.collect()
    });
    rows.collect()
}

/// A number in the forms that Wireshark writes it in.
fn number(value: &Option<String>) -> Option<u64> {
    value.as_ref().map(|text| {
        text.strip_prefix("0x")
            .map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16))
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    })
}

/// Bytes as Wireshark writes them.
fn hex(bytes: impl AsRef<[u8]>) -> Option<String> {
    Some(bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn wireshark_reads_every_opcode_as_we_wrote_it() {
    const NUMBERS: [&str; 21] = [
        "frame.len",
        "vlan.id",
        "vlan.priority",
        "ip.dsfield",
        "ipv6.tclass",
        "udp.srcport",
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
        "infiniband.bth.destqp",
        "infiniband.bth.padcnt",
        "infiniband.bth.p_key",
        "infiniband.deth.q_key",
        "infiniband.deth.srcqp",
        "infiniband.reth.va",
        "infiniband.reth.r_key",
        "infiniband.reth.dmalen",
        "infiniband.atomiceth.swapdt",
        "infiniband.atomiceth.cmpdt",
        "infiniband.aeth.msn",
        "infiniband.atomicacketh.origremdt",
        "infiniband.invariant.crc",
    ];
    const BYTES: [&str; 3] = ["infiniband.immdt", "infiniband.ieth", "data.data"];

    let payload = *b"payload in 21 bytes..";
    let tag = vlan::Tag { priority: 3, drop_eligible: false, id: 100 };
    let frames: Vec<Frame<'_>> = [ipv4(), ipv6()]
        .into_iter()
        .flat_map(|ip| Opcode::all().map(move |opcode| (ip, opcode)))
        .zip(1..)
        .map(|((ip, opcode), seed)| Frame {
            vlan: (seed % 5 == 0).then_some(tag),
            // Every pad count in its turn.
            ..frame(ip, opcode, seed, &payload[seed as usize % 4..])
        })
        .collect();
    let mut capture = pcap::file_header().to_vec();
    for (index, frame) in frames.iter().enumerate() {
        pcap::write(&mut capture, Time::from_ns(index as u64), &frame.to_vec());
    }

    let rows = tshark("opcodes.pcap", &capture, &[&NUMBERS[..], &BYTES].concat());
    assert_eq!(rows.len(), frames.len());
    for (frame, row) in frames.iter().zip(rows) {
        let bytes = frame.to_vec();
        let (_, icrc) = bytes.split_last_chunk().unwrap();
        let (v4, v6) = match frame.ip {
            Ip::V4 { tos, .. } => (Some(tos), None),
            Ip::V6 { traffic_class, .. } => (None, Some(traffic_class)),
        };
        let roce = &frame.roce;
        // Of XRC, CNP, ATOMIC WRITE and what is our own Wireshark knows the BTH alone.
        let known = !matches!(roce.facts().service, Service::Xrc | Service::Cnp)
            && roce.bth.opcode != Opcode::RC_ATOMIC_WRITE
            && roce.bth.opcode.code() < 0xc0;
        let [deth, reth, atomic] =
            [roce.deth.is_some(), roce.reth.is_some(), roce.atomic.is_some()]
                .map(|present| present && known);
        let address = roce.reth.map(|reth| reth.address);
        let address = address.or(roce.atomic.map(|atomic| atomic.address));
        let key = roce.reth.map(|reth| reth.r_key);
        let key = key.or(roce.atomic.map(|atomic| atomic.r_key));
        let expected = [
            Some(bytes.len() as u64),
            frame.vlan.map(|tag| tag.id.into()),
            frame.vlan.map(|tag| tag.priority.into()),
            v4.map(u64::from),
            v6.map(u64::from),
            Some(frame.source_port.into()),
            Some(roce.bth.opcode.code().into()),
            Some(roce.bth.psn.value().into()),
            Some(roce.bth.destination.value().into()),
            Some(roce.bth.pad.into()),
            Some(roce.bth.p_key.0.into()),
            roce.deth.filter(|_| deth).map(|deth| deth.q_key.0.into()),
            roce.deth.filter(|_| deth).map(|deth| deth.source.value().into()),
            address.filter(|_| reth || atomic),
            key.filter(|_| reth || atomic).map(|key| key.0.into()),
            roce.reth.filter(|_| reth).map(|reth| reth.length.into()),
            roce.atomic.filter(|_| atomic).map(|atomic| atomic.swap_or_add),
            roce.atomic.filter(|_| atomic).map(|atomic| atomic.compare),
            roce.aeth.filter(|_| known).map(|aeth| aeth.msn.into()),
            roce.atomic_ack.filter(|_| known),
            known.then_some(u32::from_be_bytes(*icrc).into()),
        ];
        let (numbers, texts) = row.split_at(NUMBERS.len());
        for ((name, seen), expected) in NUMBERS.iter().zip(numbers).zip(expected) {
            assert_eq!(number(seen), expected, "{name} of {frame}");
        }
        if known {
            let immediate = roce.immediate.and_then(hex);
            let key = roce.invalidate.and_then(|key| hex(key.0.to_be_bytes()));
            // Some versions count the padding as payload.
            let padded = [frame.payload, &[0; 3][..usize::from(roce.bth.pad)]].concat();
            let data =
                [hex(frame.payload), hex(padded)].map(|data| data.filter(|data| !data.is_empty()));
            assert_eq!(texts[..2], [immediate, key], "{frame}");
            assert!(data.contains(&texts[2]), "{:?} of {frame}", texts[2]);
        }
    }
}

/// A REQ in which no two fields are equal, from 10.77.0.1 port 40000 to 10.77.0.2.
fn request() -> req::Repr {
    let [local, remote] = [1, 2].map(|last| Ipv4Addr::new(10, 77, 0, last));
    let mut private = [0xee; req::PRIVATE_LEN];
    ip::Repr { port: 40_000, source: local.into(), destination: remote.into() }.emit(&mut private);
    req::Repr {
        local_id: 0x1234_5678,
        vendor: 0,
        service: ip::PortSpace::TCP.service(7174),
        guid: 0x0202_03ff_fe04_0506,
        q_key: QKey(0x1112_1314),
        qpn: Qpn::new(0x21_2223),
        responder_resources: 5,
        initiator_depth: 6,
        remote_timeout: 20,
        transport: req::Transport::Uc,
        flow_control: true,
        psn: Psn::new(0x31_3233),
        local_timeout: 18,
        retry_count: 7,
        p_key: PKey::DEFAULT,
        mtu: 3,
        rnr_retry: 6,
        max_retries: 15,
        srq: true,
        extended_transport: 1,
        path: req::Path {
            local_lid: req::NO_LID,
            remote_lid: req::NO_LID,
            local_gid: local.into(),
            remote_gid: remote.into(),
            flow_label: 0x8_1828,
            rate: 0x13,
            traffic_class: 0x68,
            hop_limit: 64,
            service_level: 9,
            subnet_local: true,
            ack_timeout: 19,
        },
        private,
    }
}

/// A capture with each of `mads` in a packet to QP1.
fn gsi_capture(mads: &[Mad]) -> Vec<u8> {
    let mut capture = pcap::file_header().to_vec();
    for (index, mad) in mads.iter().enumerate() {
        let bytes = mad.to_bytes();
        let roce = roce::Repr {
            deth: Some(deth::Repr { q_key: QKey::GSI, source: Qpn::GSI }),
            ..roce::Repr::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(index as u32))
        };
        let frame = Frame { roce, ..frame(ipv4(), Opcode::UD_SEND_ONLY, 1, &bytes) };
        pcap::write(&mut capture, Time::from_ns(index as u64), &frame.to_vec());
    }
    capture
}

#[test]
fn wireshark_reads_a_request_for_a_connection_as_we_wrote_it() {
    let req = request();
    let path = req.path;
    let expected = [
        ("infiniband.mad.mgmtclass", 7),
        ("infiniband.mad.classversion", 2),
        ("infiniband.mad.method", 3),
        ("infiniband.mad.transactionid", 0x9_8765_4321),
        ("infiniband.cm.req", req.local_id.into()),
        ("infiniband.cm.req.serviceid.dport", 7174),
        ("infiniband.cm.req.localcaguid", req.guid),
        ("infiniband.cm.req.localqkey", req.q_key.0.into()),
        ("infiniband.cm.req.localqpn", req.qpn.value().into()),
        ("infiniband.cm.req.responderres", req.responder_resources.into()),
        ("infiniband.cm.req.initdepth", req.initiator_depth.into()),
        ("infiniband.cm.req.remoteresptout", req.remote_timeout.into()),
        ("infiniband.cm.req.transpsvctype", req.transport.bits().into()),
        ("infiniband.cm.req.e2eflowctrl", req.flow_control.into()),
        ("infiniband.cm.req.startpsn", req.psn.value().into()),
        ("infiniband.cm.req.localresptout", req.local_timeout.into()),
        ("infiniband.cm.req.retrcount", req.retry_count.into()),
        ("infiniband.cm.req.pkey", req.p_key.0.into()),
        ("infiniband.cm.req.pppmtu", req.mtu.into()),
        ("infiniband.cm.req.rnrretrcount", req.rnr_retry.into()),
        ("infiniband.cm.req.maxcmretr", req.max_retries.into()),
        ("infiniband.cm.req.srq", req.srq.into()),
        ("infiniband.cm.req.ext_transport", req.extended_transport.into()),
        ("infiniband.cm.req.prim_locallid", path.local_lid.into()),
        // Of the flow label's 20 bits Wireshark 4.0 shows the upper 12, and the rate likewise;
        // golden.rs has the label as the kernel sends it.
        ("infiniband.cm.req.prim_tfcclass", path.traffic_class.into()),
        ("infiniband.cm.req.prim_hoplim", path.hop_limit.into()),
        ("infiniband.cm.req.prim_sl", path.service_level.into()),
        ("infiniband.cm.req.prim_subnetlocal", path.subnet_local.into()),
        ("infiniband.cm.req.prim_localacktout", path.ack_timeout.into()),
        ("infiniband.cm.req.ip_cm.ipv", 4),
        ("infiniband.cm.req.ip_cm.sport", 40_000),
    ];
    const TEXTS: [&str; 4] = [
        "infiniband.cm.req.prim_localgid_ipv4",
        "infiniband.cm.req.prim_remotegid_ipv4",
        "infiniband.cm.req.ip_cm.sip4",
        "infiniband.cm.req.ip_cm.dip4",
    ];
    let fields: Vec<&str> = expected.iter().map(|(field, _)| *field).chain(TEXTS).collect();
    let capture = gsi_capture(&[Mad::new(0x9_8765_4321, Message::Req(req))]);
    let rows = tshark("request.pcap", &capture, &fields);
    assert_eq!(rows.len(), 1);
    let (numbers, texts) = rows[0].split_at(expected.len());
    for ((field, value), seen) in expected.iter().zip(numbers) {
        assert_eq!(number(seen), Some(*value), "{field}");
    }
    let texts: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
    assert_eq!(texts, ["10.77.0.1", "10.77.0.2", "10.77.0.1", "10.77.0.2"]);
}

#[test]
fn wireshark_reads_the_answers_to_a_request_as_we_wrote_them() {
    let (local_id, remote_id) = (0x1234_5678, 0x9abc_def0);
    let rep = rep::Repr {
        local_id,
        remote_id,
        q_key: QKey(0x1112_1314),
        qpn: Qpn::new(0x21_2223),
        eecn: Qpn::default(),
        vendor: 0,
        psn: Psn::new(0x31_3233),
        responder_resources: 5,
        initiator_depth: 6,
        target_ack_delay: 15,
        failover: 2,
        flow_control: true,
        rnr_retry: 7,
        srq: true,
        guid: 0x0202_03ff_fe04_0506,
        private: [0xee; rep::PRIVATE_LEN],
    };
    let rej = rej::Repr {
        local_id,
        remote_id,
        about: About::Rep,
        info_length: 16,
        reason: rej::Reason::CONSUMER,
        info: [0xdd; rej::INFO_LEN],
        private: [0xee; rej::PRIVATE_LEN],
    };
    let rtu = brief::Rtu { local_id, remote_id, private: [1; brief::RTU_PRIVATE_LEN] };
    let remote_qpn = Qpn::new(0x55_6677);
    let private = [1; brief::DREQ_PRIVATE_LEN];
    let dreq = brief::Dreq { local_id, remote_id, remote_qpn, private };
    let drep = brief::Drep { local_id, remote_id, private: [1; brief::DREP_PRIVATE_LEN] };
    let messages = [
        Message::Rep(rep),
        Message::Rej(rej),
        Message::Rtu(rtu),
        Message::Dreq(dreq),
        Message::Drep(drep),
    ];
    let ids = [u64::from(local_id), u64::from(remote_id)];
    let expected: [&[(&str, u64)]; 5] = [
        &[
            ("infiniband.cm.rep", ids[0]),
            ("infiniband.cm.rep.remotecommid", ids[1]),
            ("infiniband.cm.rep.localqkey", 0x1112_1314),
            ("infiniband.cm.rep.localqpn", 0x21_2223),
            ("infiniband.cm.rep.startpsn", 0x31_3233),
            ("infiniband.cm.rep.respres", 5),
            ("infiniband.cm.rep.initdepth", 6),
            ("infiniband.cm.rep.tgtackdelay", 15),
            ("infiniband.cm.rep.failoveracc", 2),
            ("infiniband.cm.rep.e2eflowctrl", 1),
            ("infiniband.cm.rep.rnrretrcount", 7),
            ("infiniband.cm.rep.srq", 1),
            ("infiniband.cm.rep.localcaguid", rep.guid),
        ],
        &[
            ("infiniband.cm.rej.localcommid", ids[0]),
            ("infiniband.cm.rej.remotecommid", ids[1]),
            ("infiniband.cm.rej.msgrej", 1),
            ("infiniband.cm.rej.rejinfolen", 16),
            ("infiniband.cm.rej.reason", 28),
        ],
        &[("infiniband.cm.rtu.localcommid", ids[0]), ("infiniband.cm.rtu.remotecommid", ids[1])],
        &[
            ("infiniband.cm.dreq.localcommid", ids[0]),
            ("infiniband.cm.dreq.remotecommid", ids[1]),
            ("infiniband.cm.req.remoteqpneecn", 0x55_6677),
        ],
        &[("infiniband.cm.drsp.localcommid", ids[0]), ("infiniband.cm.drsp.remotecommid", ids[1])],
    ];
    for (at, (message, expected)) in messages.into_iter().zip(expected).enumerate() {
        let fields: Vec<&str> = expected.iter().map(|(field, _)| *field).collect();
        let capture = gsi_capture(&[Mad::new(7, message)]);
        let rows = tshark(&format!("answer-{at}.pcap"), &capture, &fields);
        assert_eq!(rows.len(), 1);
        for ((field, value), seen) in expected.iter().zip(&rows[0]) {
            assert_eq!(number(seen), Some(*value), "{field} of {message}");
        }
    }
}

#[test]
fn wireshark_reads_pause_pfc_and_arp_as_we_wrote_them() {
    const FIELDS: [&str; 11] = [
        "macc.opcode",
        "macc.pause_time",
        "macc.cbfc.enbv",
        "macc.cbfc.pause_time.c0",
        "macc.cbfc.pause_time.c3",
        "macc.cbfc.pause_time.c7",
        "arp.opcode",
        "vlan.id",
        "frame.interface_id",
        "frame.packet_flags_direction",
        "frame.time_epoch",
    ];
    let mut pfc = pfc::Repr::of(3, 0xffff);
    pfc.quanta[7] = Some(0);
    let mut arp = [0; ethernet::MIN_FRAME_LEN];
    let (destination, source) = (Address::BROADCAST, HOST1);
    ethernet::Repr { destination, source, ethertype: EtherType::VLAN }.emit(&mut arp);
    let tag = vlan::Tag { priority: 0, drop_eligible: false, id: 7 };
    vlan::Repr { tag, ethertype: EtherType::ARP }.emit(&mut arp[ethernet::HEADER_LEN..]);
    arp::Repr {
        operation: arp::Operation::Reply,
        sender_mac: HOST1,
        sender_ip: Ipv4Addr::new(10, 77, 0, 1),
        target_mac: HOST2,
        target_ip: Ipv4Addr::new(10, 77, 0, 2),
    }
    .emit(&mut arp[ethernet::HEADER_LEN + vlan::HEADER_LEN..]);

    let mut capture = pcapng::section_header().to_vec();
    pcapng::write_interface(&mut capture, "tor1:swp1");
    pcapng::write_interface(&mut capture, "host1:eth0");
    let at = |ns: u64| Time::from_ns(1_000_000_000 + ns);
    let pause = pause::Repr { quanta: 0x1234 }.frame(HOST1);
    pcapng::write(&mut capture, 0, at(1), Direction::Inbound, &pause);
    pcapng::write(&mut capture, 1, at(2), Direction::Outbound, &pfc.frame(HOST2));
    pcapng::write(&mut capture, 1, at(3), Direction::Unknown, &arp);

    let rows = tshark("control.pcapng", &capture, &FIELDS);
    let seen: Vec<Vec<&str>> = rows
        .iter()
        .map(|row| row.iter().map(|value| value.as_deref().unwrap_or("")).collect())
        .collect();
    let expected = [
        ["0x0001", "4660", "", "", "", "", "", "", "0", "0x00000001", "1.000000001"],
        ["0x0101", "", "0x0088", "0", "65535", "0", "", "", "1", "0x00000002", "1.000000002"],
        ["", "", "", "", "", "", "2", "7", "1", "", "1.000000003"],
    ];
    assert_eq!(seen, expected);
}
