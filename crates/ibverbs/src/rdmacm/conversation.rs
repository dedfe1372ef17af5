//! Conversations of the connection manager, which belong to ids.

use transport::cm::CommId;
use wire::cm::brief;

use crate::context::Context;
use crate::errno::Errno;

/// Brings a conversation to its end, without another event.
pub(super) fn forget(context: &Context, conversation: CommId) {
    context.nic.with_manager(|manager, now| {
        manager.forget(now, conversation);
        context.events.connections.end(conversation);
    });
}

/// Confirms a reply.
pub(super) fn confirm(context: &Context, conversation: CommId) -> Result<(), Errno> {
    let private = [0; brief::RTU_PRIVATE_LEN];
    Ok(context.nic.with_manager(|manager, _| manager.confirm(conversation, private))?)
}
