//! What sending and receiving have in common.

use crate::attachment::membership::Membership;
use crate::attachment::observers::Observers;
use crate::management::Management;
use crate::path::Paths;

/// The parts of an attachment that packets of both directions pass.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) membership: Membership,
    pub(crate) paths: Paths,
    pub(crate) management: Management,
    pub(crate) observers: Observers,
}
