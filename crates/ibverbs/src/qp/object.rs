//! A queue pair and its handles: `ibv_modify_qp`, `ibv_query_qp`, `ibv_destroy_qp`, `ibv_set_ece`.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use rdma::{QpState, QpType, Qpn};
use softnic::journal;
use transport::{Mask, QpChange, QpQuery, Recovery};

use crate::context::{Context, VENDOR_ID, owned};
use crate::cq::Cq;
use crate::errno::{Errno, status};
use crate::event::Acks;
use crate::pd::Pd;
use crate::qp::attributes::{self, state_number};
use crate::qp::batch::Builder;
use crate::qp::ece::Ece;
use crate::registry::{self, Hot, Mark, Object, Shared};
use crate::srq::Srq;
use crate::xrcd::Xrcd;
use abi::{ibv_ece, ibv_qp, ibv_qp_attr, ibv_qp_ex, ibv_qp_init_attr};

/// A queue pair.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) c: Shared<ibv_qp_ex>,
    mark: Mark,
    pub(crate) context: Arc<Context>,
    pub(crate) qpn: Qpn,
    pub(crate) kind: QpType,
    /// How many handles the queue pair has: an XRC target may be opened several times.
    pub(super) handles: Arc<AtomicU32>,
    /// What was agreed with the peer by Enhanced Connection Establishment.
    ece: Ece,
    pub(crate) acks: Arc<Acks>,
    /// What `ibv_wr_start` began; queue pairs made without `send_ops_flags` have none.
    pub(crate) builder: Option<Builder>,
    /// What the queue pair refers to, and what therefore cannot be destroyed before it.
    _uses: Uses,
}

/// The domain of an XRC target; or protection domain, completion queues and shared receive queue.
#[derive(Debug)]
pub(super) enum Uses {
    Target { _xrcd: Arc<Xrcd> },
    Other { _pd: Arc<Pd>, _send_cq: Arc<Cq>, _recv_cq: Arc<Cq>, _srq: Option<Arc<Srq>> },
}

owned!(context, Qp, ibv_qp, b"fcQP");

/// Who has chosen the attributes of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chooser {
    Program,
    /// RDMA CM, with the peer's.
    Manager,
}

/// Changes attributes and state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    status!(registry::find::<Qp>(qp).and_then(|qp| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::NULL)?;
        qp.modify(attr, Mask(attr_mask.cast_unsigned()), Chooser::Program)
    }))
}

impl Qp {
    /// Ends the engine's object: the device is closed.
    pub(crate) fn end(&self) {
        self.context.nic.detach_all_multicast(self.qpn);
        // It fails if the engine's object is gone already.
        let _ = self.destroy();
    }

    /// A handle of the queue pair `qpn` in RESET. Of `qp_base`, the caller fills in what C has given. From
    /// now on the events of the queue pair are for this handle, too.
    pub(super) fn new(
        mut c: ibv_qp_ex,
        context: &Arc<Context>,
        (qpn, kind): (Qpn, QpType),
        handles: Arc<AtomicU32>,
        builder: Option<Builder>,
        uses: Uses,
    ) -> Arc<Self> {
        (c.qp_base.context, c.qp_base.handle) = (context.c(), qpn.value());
        (c.qp_base.qp_num, c.qp_base.state) = (qpn.value(), state_number(QpState::Reset));
        let qp = Arc::new(Self {
            c: Shared::new(c),
            mark: Mark::new(Self::KIND),
            context: Arc::clone(context),
            qpn,
            kind,
            handles,
            ece: Ece::default(),
            acks: Arc::default(),
            builder,
            _uses: uses,
        });
        let (handle, events) = (qp.c().expose_provenance(), &context.events);
        events.add_qp(qpn, events.target(handle, &qp.acks));
        qp
    }

    /// Changes attributes and state: `mask` says which of `attr`.
    pub(crate) fn modify(
        &self,
        attr: &ibv_qp_attr,
        mask: Mask,
        chooser: Chooser,
    ) -> Result<(), Errno> {
        self.change(attr, mask, chooser).map_err(|error| {
            let query = self.context.nic.with(|endpoint, _, _| endpoint.query_qp(self.qpn));
            let Some(QpQuery { state: from, .. }) = query else { return error };
            let wanted = attributes::state(attr.qp_state).ok();
            let to = wanted.filter(|_| mask.contains(Mask::STATE)).unwrap_or(from);
            error.between(from, to)
        })
    }

    fn change(&self, attr: &ibv_qp_attr, mask: Mask, chooser: Chooser) -> Result<(), Errno> {
        self.context.check_process()?;
        let mut change = attributes::change(&self.context, attr, mask)?;
        self.ece.complete(&mut change);
        change.negotiated_mtu = change.path_mtu.map(|_| chooser == Chooser::Manager);
        let nic = &self.context.nic;
        change.between_hosts = change.path.map(|path| nic.is_of_another_host(path.gid));
        self.context.nic.with(|endpoint, _, _| endpoint.modify_qp(self.qpn, &change))?;
        if let Some(state) = change.state {
            self.show_state(state);
            self.note(state);
        }
        if change.state == Some(QpState::Rtr) {
            self.warn_of_narrow_path(&change);
            self.context.start();
        }
        Ok(())
    }

    /// Says so where the path is known to be too narrow.
    fn warn_of_narrow_path(&self, change: &QpChange) {
        if let (Some(true), Some(path), Some(mtu)) =
            (change.between_hosts, change.path, change.path_mtu)
            && let Some(narrow) = self.context.nic.narrow_path(path.gid, mtu)
        {
            tracing::warn!("QP {} will not be answered: {narrow}", self.qpn);
        }
    }

    /// Ends the queue pair, unless there are other handles.
    fn destroy(&self) -> Result<(), Errno> {
        self.context.nic.with(|endpoint, _, _| {
            if endpoint.groups_of(self.qpn).next().is_some() {
                return Err(Errno::BUSY.because("it is attached to a multicast group"));
            }
            // Another thread may have been faster.
            if !self.context.events.remove_qp(self.qpn, self.c().addr()) {
                return Err(Errno::invalid("another thread has destroyed it"));
            }
            match self.handles.fetch_sub(1, Ordering::Relaxed) {
                1 => endpoint
                    .destroy_qp(self.qpn)
                    .map_err(Errno::from)
                    .inspect(|()| journal::note_gone(self.qpn)),
                _ => Ok(()),
            }
        })
    }

    /// Whether there is anything to agree on.
    fn has_options(&self) -> bool {
        let offers = self
            .context
            .nic
            .with(|endpoint, _, _| endpoint.config().recovery == Recovery::SelectiveRepeat);
        offers && self.kind == QpType::Rc
    }

    /// For who waits for the end of this program.
    fn note(&self, state: QpState) {
        if !journal::is_kept() {
            return;
        }
        let nic = &self.context.nic;
        let query = nic.with(|endpoint, _, _| endpoint.query_qp(self.qpn));
        let peer = query.map(|query| (query.attributes.path.gid, query.attributes.destination));
        let device = &nic.device().name;
        journal::note_state(device, (self.qpn, self.kind, state), peer.unwrap_or_default());
    }

    /// Keeps the copy that C may read as `qp->state`.
    fn show_state(&self, state: QpState) {
        // SAFETY: C reads the field only when the call is over.
        unsafe { (*self.c()).state = state_number(state) };
    }
}

/// Returns all attributes, whatever `attr_mask` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    status!(registry::find::<Qp>(qp).and_then(|qp| {
        // SAFETY: C passes two writable structures.
        let (attr, init_attr) = unsafe { (attr.as_mut(), init_attr.as_mut()) };
        let (Some(attr), Some(init_attr)) = (attr, init_attr) else { return Err(Errno::NULL) };
        let query = qp.context.nic.with(|endpoint, _, _| endpoint.query_qp(qp.qpn));
        let query = query.ok_or(Errno::invalid("the queue pair is gone"))?;
        qp.show_state(query.state);
        *attr = attributes::attributes(&query);
        // SAFETY: a structure that is alive as long as the queue pair is.
        let c = unsafe { &*qp.c() };
        *init_attr = ibv_qp_init_attr {
            qp_context: c.qp_context,
            send_cq: c.send_cq,
            recv_cq: c.recv_cq,
            srq: c.srq,
            cap: attr.cap,
            qp_type: c.qp_type,
            sq_sig_all: c_int::from(query.signal_all),
        };
        Ok(())
    }))
}

/// Destroys a queue pair, once its events are acknowledged; an XRC target with its last handle.
/// `EBUSY` while it is attached to a multicast group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    status!(registry::find::<Qp>(qp).and_then(|qp| destroy(&qp)))
}

/// Destroys a queue pair, as [`ibv_destroy_qp`] does.
pub(crate) fn destroy(qp: &Qp) -> Result<(), Errno> {
    qp.destroy()?;
    qp.context.events.withdraw(qp.c().addr());
    qp.acks.wait();
    registry::remove(qp);
    Ok(())
}

/// Whether data becomes visible in order: no promise is made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(_: *mut ibv_qp, _: u32, _: c_uint) -> c_int {
    0
}

/// Returns the options that the queue pair offers; after [`ibv_set_ece`], those that it uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status!(registry::find::<Qp>(qp).and_then(|qp| {
        if !qp.has_options() {
            return Err(Errno::UNSUPPORTED);
        }
        // SAFETY: C passes a writable structure.
        let ece = unsafe { ece.as_mut() }.ok_or(Errno::NULL)?;
        *ece = ibv_ece { vendor_id: VENDOR_ID, options: qp.ece.options(), comp_mask: 0 };
        Ok(())
    }))
}

/// Agrees to what the peer offers, as far as the queue pair has it. Options of another vendor, or
/// after INIT, are `EINVAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status!(registry::find::<Qp>(qp).and_then(|qp| {
        if !qp.has_options() {
            return Err(Errno::UNSUPPORTED);
        }
        // SAFETY: C passes a readable structure.
        let ece = unsafe { ece.as_ref() }.ok_or(Errno::NULL)?;
        let state = qp.context.nic.with(|endpoint, _, _| endpoint.query_qp(qp.qpn));
        let early = state.is_some_and(|qp| matches!(qp.state, QpState::Reset | QpState::Init));
        if ece.vendor_id != VENDOR_ID || ece.comp_mask != 0 || !early {
            return Err(Errno::invalid("options are of another vendor, comp_mask is not 0, or the queue pair is beyond INIT"));
        }
        qp.ece.agree(ece.options);
        Ok(())
    }))
}
