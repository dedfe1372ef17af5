//! Address handles: `ibv_create_ah`, `ibv_create_ah_from_wc`, `ibv_resolve_eth_l2_from_gid`.

use core::ffi::c_int;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::fs;
use std::sync::Arc;

use rdma::{Gid, QKey, Qpn, UdAddress};
use transport::AddressVector;

use crate::context::{Context, owned};
use crate::errno::{Errno, minus_one, pointer, status};
use crate::pd::Pd;
use crate::port::PORT;
use crate::registry::{self, Hot, Mark, Object, Shared};
use abi::{self, Plain, ibv_ah, ibv_ah_attr, ibv_context, ibv_gid, ibv_grh, ibv_pd, ibv_wc};

/// The VLAN that means "none".
const NO_VLAN: u16 = 0xffff;

/// An address handle.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ah {
    c: Shared<ibv_ah>,
    mark: Mark,
    pub(crate) pd: Arc<Pd>,
    path: AddressVector,
}

owned!(pd.context, Ah, ibv_ah, b"fcAH");

impl Ah {
    /// The address of queue pair `qpn` behind this handle.
    pub(crate) fn address(&self, qpn: u32, q_key: u32) -> UdAddress {
        self.path.datagram(Qpn::new(qpn), QKey(q_key))
    }
}

/// The path that C describes. On RoCE every path is global (IBTA annex A17.4.4).
pub(crate) fn path(context: &Context, attr: &ibv_ah_attr) -> Result<AddressVector, Errno> {
    let source = context
        .gid(attr.grh.sgid_index)
        .ok_or(Errno::invalid("sgid_index is beyond the table of GIDs"))?;
    if attr.is_global == 0 {
        return Err(Errno::invalid("IBV_QP_AV without is_global, which RoCE needs"));
    }
    if !source.usable {
        return Err(Errno::UNREACHABLE.because("no address belongs to the GID of sgid_index (now)"));
    }
    let gid = destination(Gid(attr.grh.dgid.raw), source.gid);
    if !gid.is_zero() && gid.is_ipv4() != source.gid.is_ipv4() {
        return Err(Errno::invalid(
            "the GIDs of sgid_index and of the destination are of two families, IPv4 and IPv6: \
             choose a sgid_index of the destination's",
        ));
    }
    Ok(AddressVector {
        gid,
        source_gid: source.gid,
        source_gid_index: attr.grh.sgid_index,
        traffic_class: attr.grh.traffic_class,
        hop_limit: attr.grh.hop_limit,
        flow_label: attr.grh.flow_label,
        service_level: attr.sl,
    })
}

/// The GID that packets to `gid` carry. An IPv4 address sends to an IPv4 group in either notation.
fn destination(gid: Gid, source: Gid) -> Gid {
    let group = || gid.group().filter(|group| group.ip().is_ipv4());
    if source.ip().is_ipv4() { group().unwrap_or(gid) } else { gid }
}

/// A path as C reads it.
pub(crate) fn attributes(path: &AddressVector) -> ibv_ah_attr {
    let mut attr = ibv_ah_attr::zeroed();
    attr.grh.dgid = ibv_gid { raw: path.gid.0 };
    attr.grh.flow_label = path.flow_label;
    attr.grh.sgid_index = path.source_gid_index;
    attr.grh.hop_limit = path.hop_limit;
    attr.grh.traffic_class = path.traffic_class;
    attr.sl = path.service_level;
    attr.is_global = 1;
    attr.port_num = PORT;
    attr
}

/// Makes an address handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        // SAFETY: C passes a readable structure.
        create(pd, unsafe { attr.as_ref() }.ok_or(Errno::NULL)?)
    }))
}

fn create(pd: Arc<Pd>, attr: &ibv_ah_attr) -> Result<*mut ibv_ah, Errno> {
    let path = path(&pd.context, attr)?;
    if attr.port_num != PORT || path.gid.is_zero() {
        return Err(Errno::invalid("port_num is not 1, or the destination GID is zero"));
    }
    let c = Shared::new(ibv_ah { context: pd.context.c(), pd: pd.c(), handle: 0 });
    Ok(registry::insert(Arc::new(Ah { c, mark: Mark::new(Ah::KIND), pd, path })))
}

/// Destroys an address handle. Requests that were posted with it go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    status!(registry::forget::<Ah>(ah))
}

/// The addresses and fields of the 40 bytes before a datagram.
struct GlobalHeader {
    source: Gid,
    destination: Gid,
    traffic_class: u8,
    flow_label: u32,
}

impl GlobalHeader {
    /// An IPv6 header, or zeroes and an IPv4 header in the last 20 bytes (IBTA annex A17.4.5.2).
    fn parse(bytes: &[u8; 40]) -> Option<Self> {
        let byte = |at: usize| bytes[at];
        if bytes[0] >> 4 == 6 {
            let gid = |at: usize| {
                let mut raw = [0; 16];
                raw.copy_from_slice(&bytes[at..at + 16]);
                Gid::from(Ipv6Addr::from(raw))
            };
            let first = u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)]);
            return Some(Self {
                source: gid(8),
                destination: gid(24),
                traffic_class: (first >> 20 & 0xff) as u8,
                flow_label: first & 0xf_ffff,
            });
        }
        let gid = |at: usize| {
            Gid::from(Ipv4Addr::new(byte(at), byte(at + 1), byte(at + 2), byte(at + 3)))
        };
        (bytes[20] >> 4 == 4).then(|| Self {
            source: gid(32),
            destination: gid(36),
            traffic_class: byte(21),
            flow_label: 0,
        })
    }
}

/// Describes the path back to the sender of a datagram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    ah_attr: *mut ibv_ah_attr,
) -> c_int {
    minus_one!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes three structures, of which one is written.
        let (wc, grh, target) = unsafe { (wc.as_ref(), grh.as_ref(), ah_attr.as_mut()) };
        let (Some(wc), Some(grh), Some(target)) = (wc, grh, target) else {
            return Err(Errno::NULL);
        };
        *target = path_back(&context, port_num, wc, grh)?;
        Ok(())
    }))
}

/// The path back to the sender of a datagram.
fn path_back(
    context: &Context,
    port_num: u8,
    wc: &ibv_wc,
    grh: &ibv_grh,
) -> Result<ibv_ah_attr, Errno> {
    if wc.wc_flags & abi::IBV_WC_GRH == 0 || port_num != PORT {
        return Err(Errno::invalid("the completion has no GRH, or port_num is not 1"));
    }
    let header = GlobalHeader::parse(&grh.raw)
        .ok_or(Errno::invalid("the GRH is neither of IPv4 nor of IPv6"))?;
    let mut ours = context.nic.device().gids.iter();
    let ours = ours
        .find(|entry| entry.gid == header.destination)
        .ok_or(Errno::invalid("the GRH is to an address that is none of ours"))?;
    Ok(attributes(&AddressVector {
        gid: header.source,
        source_gid: ours.gid,
        source_gid_index: ours.index,
        traffic_class: header.traffic_class,
        hop_limit: u8::MAX,
        flow_label: header.flow_label,
        // The completion's service level is the kind of header.
        service_level: 0,
    }))
}

/// Makes an address handle of the sender of a datagram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port_num: u8,
) -> *mut ibv_ah {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        // SAFETY: C passes two readable structures.
        let (wc, grh) = unsafe { (wc.as_ref(), grh.as_ref()) };
        let (Some(wc), Some(grh)) = (wc, grh) else { return Err(Errno::NULL) };
        let attr = path_back(&pd.context, port_num, wc, grh)?;
        create(pd, &attr)
    }))
}

/// Finds the Ethernet address behind a path's GID: our own, or what the kernel's ARP table says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    eth_mac: *mut [u8; 6],
    vid: *mut u16,
) -> c_int {
    minus_one!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes three structures, of which the last two are written.
        let (attr, mac, vid) = unsafe { (attr.as_ref(), eth_mac.as_mut(), vid.as_mut()) };
        let (Some(attr), Some(mac), Some(vid)) = (attr, mac, vid) else {
            return Err(Errno::NULL);
        };
        let path = path(&context, attr)?;
        let device = context.nic.device();
        let is_ours = device.gids.iter().any(|entry| entry.gid == path.gid);
        *mac = if is_ours {
            device.mac
        } else {
            let table = fs::read_to_string("/proc/net/arp")?;
            arp_entry(&table, &path.gid.ip().to_string()).ok_or(Errno::NO_ENTRY)?
        };
        *vid = NO_VLAN;
        Ok(())
    }))
}

/// The hardware address of `ip` in the text of `/proc/net/arp`.
fn arp_entry(table: &str, ip: &str) -> Option<[u8; 6]> {
    let mut words = table.lines().map(str::split_whitespace);
    let text = words.find_map(|mut words| (words.next() == Some(ip)).then(|| words.nth(2)))??;
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_group_is_sent_to_however_it_is_written() {
        let group = Gid::from(Ipv4Addr::new(239, 1, 2, 3));
        let v1 = Gid::from("ff0e::ffff:239.1.2.3".parse::<Ipv6Addr>().unwrap());
        let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        assert_eq!((destination(v1, v4), destination(group, v4)), (group, group));
        assert_eq!((destination(v1, v6), destination(v6, v4)), (v1, v6));
    }

    #[test]
    fn the_sender_is_found_in_an_ipv4_header() {
        let mut bytes = [0; 40];
        bytes[20] = 0x45;
        bytes[21] = 0x68;
        bytes[32..36].copy_from_slice(&[10, 0, 0, 1]);
        bytes[36..40].copy_from_slice(&[10, 0, 0, 2]);
        let header = GlobalHeader::parse(&bytes).unwrap();
        assert_eq!(header.source, Ipv4Addr::new(10, 0, 0, 1).into());
        assert_eq!(header.destination, Ipv4Addr::new(10, 0, 0, 2).into());
        assert_eq!(header.traffic_class, 0x68);
    }

    #[test]
    fn the_sender_is_found_in_an_ipv6_header() {
        let mut bytes = [0; 40];
        bytes[..4].copy_from_slice(&0x6681_2345_u32.to_be_bytes());
        bytes[23] = 1;
        bytes[39] = 2;
        let header = GlobalHeader::parse(&bytes).unwrap();
        assert_eq!(header.source, Ipv6Addr::LOCALHOST.into());
        assert_eq!(header.destination.0[15], 2);
        assert_eq!((header.traffic_class, header.flow_label), (0x68, 0x1_2345));
        assert!(GlobalHeader::parse(&[0; 40]).is_none());
    }

    #[test]
    fn an_arp_entry_is_found_by_its_address() {
        let table = "IP address  HW type  Flags  HW address         Mask  Device\n\
                     10.0.0.2    0x1      0x2    02:fc:00:00:00:01  *     eth0\n";
        assert_eq!(arp_entry(table, "10.0.0.2"), Some([2, 0xfc, 0, 0, 0, 1]));
        assert_eq!(arp_entry(table, "10.0.0.20"), None);
    }
}
