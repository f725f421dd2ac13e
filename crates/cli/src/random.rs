//! Random bytes of the system.

use lastword_api::Code;

use crate::failure::Failure;

/// Returns random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut bytes[..], flags) {
        Ok(filled) if filled == N => Ok(bytes),
        _ => Err(Failure::new(Code::Unavailable, "this system gives no random bytes")),
    }
}
