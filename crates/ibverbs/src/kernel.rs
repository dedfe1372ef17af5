//! Structures of the kernel's user API, copied to and from those of verbs: librdmacm does it with
//! what it reads from `/dev/infiniband/rdma_cm`.

use abi::{Plain, ibv_ah_attr, ibv_gid, ibv_global_route, ibv_qp_attr, ibv_qp_cap};

/// `struct ib_uverbs_ah_attr`, 32 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct KernelAhAttr {
    dgid: [u8; 16],
    flow_label: u32,
    sgid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    reserved_route: u8,
    dlid: u16,
    sl: u8,
    src_path_bits: u8,
    static_rate: u8,
    is_global: u8,
    port_num: u8,
    reserved: u8,
}

/// `struct ib_uverbs_qp_attr`, 144 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct KernelQpAttr {
    qp_attr_mask: u32,
    qp_state: u32,
    cur_qp_state: u32,
    path_mtu: u32,
    path_mig_state: u32,
    qkey: u32,
    rq_psn: u32,
    sq_psn: u32,
    dest_qp_num: u32,
    qp_access_flags: u32,
    ah_attr: KernelAhAttr,
    alt_ah_attr: KernelAhAttr,
    cap: [u32; 5],
    pkey_index: u16,
    alt_pkey_index: u16,
    en_sqd_async_notify: u8,
    sq_draining: u8,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    port_num: u8,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    alt_port_num: u8,
    alt_timeout: u8,
    reserved: [u8; 5],
}

/// `struct ib_user_path_rec`, 64 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct KernelPathRecord {
    dgid: [u8; 16],
    sgid: [u8; 16],
    dlid: u16,
    slid: u16,
    raw_traffic: u32,
    flow_label: u32,
    reversible: u32,
    mtu: u32,
    pkey: u16,
    hop_limit: u8,
    traffic_class: u8,
    numb_path: u8,
    sl: u8,
    mtu_selector: u8,
    rate_selector: u8,
    rate: u8,
    packet_life_time_selector: u8,
    packet_life_time: u8,
    preference: u8,
}

/// `struct ibv_sa_path_rec`, 64 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub struct PathRecord {
    dgid: [u8; 16],
    sgid: [u8; 16],
    dlid: u16,
    slid: u16,
    raw_traffic: u32,
    flow_label: u32,
    hop_limit: u8,
    traffic_class: u8,
    reversible: u32,
    numb_path: u8,
    pkey: u16,
    sl: u8,
    mtu_selector: u8,
    mtu: u8,
    rate_selector: u8,
    rate: u8,
    packet_life_time_selector: u8,
    packet_life_time: u8,
    preference: u8,
}

/// A structure with what `$source` has under the same names and of the same types, and what is given.
macro_rules! copied {
    ($source:ident, [$($same:ident)*], $($given:tt)*) => {
        Self { $($same: $source.$same,)* $($given)* }
    };
}

impl From<&KernelAhAttr> for ibv_ah_attr {
    fn from(source: &KernelAhAttr) -> Self {
        let dgid = ibv_gid { raw: source.dgid };
        let KernelAhAttr { flow_label, sgid_index, hop_limit, traffic_class, .. } = *source;
        let grh = ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class };
        copied!(source, [dlid sl src_path_bits static_rate is_global port_num], grh)
    }
}

impl From<&KernelQpAttr> for ibv_qp_attr {
    fn from(source: &KernelQpAttr) -> Self {
        let [max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data] = source.cap;
        copied! {
            source,
            [qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num
                qp_access_flags pkey_index alt_pkey_index en_sqd_async_notify sq_draining
                max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt
                rnr_retry alt_port_num alt_timeout],
            cap: ibv_qp_cap {
                max_send_wr,
                max_recv_wr,
                max_send_sge,
                max_recv_sge,
                max_inline_data,
            },
            ah_attr: (&source.ah_attr).into(),
            alt_ah_attr: (&source.alt_ah_attr).into(),
            ..Self::zeroed()
        }
    }
}

/// A path record of the one kind as one of the other: they differ in the type of `mtu`.
macro_rules! path_record {
    ($source:ident, $mtu:expr) => {
        copied! {
            $source,
            [dgid sgid dlid slid raw_traffic flow_label reversible pkey hop_limit traffic_class
                numb_path sl mtu_selector rate_selector rate packet_life_time_selector
                packet_life_time preference],
            mtu: $mtu
        }
    };
}

impl From<&KernelPathRecord> for PathRecord {
    fn from(source: &KernelPathRecord) -> Self {
        path_record!(source, source.mtu as u8)
    }
}

impl From<&PathRecord> for KernelPathRecord {
    fn from(source: &PathRecord) -> Self {
        path_record!(source, u32::from(source.mtu))
    }
}

/// Copies `source` into `target`, its counterpart in C.
///
/// # Safety
/// Each pointer is NULL, or readable or writable as its structure.
unsafe fn copy<S, T>(target: *mut T, source: *const S)
where
    T: for<'a> From<&'a S>,
{
    // SAFETY: the caller vouches for both.
    if let (Some(target), Some(source)) = unsafe { (target.as_mut(), source.as_ref()) } {
        *target = source.into();
    }
}

/// Path attributes from the kernel's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(
    target: *mut ibv_ah_attr,
    source: *const KernelAhAttr,
) {
    // SAFETY: C passes two structures.
    unsafe { copy(target, source) };
}

/// Queue pair attributes from the kernel's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(
    target: *mut ibv_qp_attr,
    source: *const KernelQpAttr,
) {
    // SAFETY: C passes two structures.
    unsafe { copy(target, source) };
}

/// A path record from the kernel's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(
    target: *mut PathRecord,
    source: *const KernelPathRecord,
) {
    // SAFETY: C passes two structures.
    unsafe { copy(target, source) };
}

/// A path record for the kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(
    target: *mut KernelPathRecord,
    source: *const PathRecord,
) {
    // SAFETY: C passes two structures.
    unsafe { copy(target, source) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_lie_as_the_kernel_writes_them() {
        assert_eq!(size_of::<KernelAhAttr>(), 32);
        assert_eq!(size_of::<KernelQpAttr>(), 144);
        assert_eq!(size_of::<KernelPathRecord>(), 64);
        assert_eq!(size_of::<PathRecord>(), 64);
    }
}
