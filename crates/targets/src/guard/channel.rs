//! Sends messages and descriptors over the socket between gcwatch and its guard. No call blocks.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::guard::message::MAX_BYTES;

/// Creates both ends of a new channel. The channel preserves message boundaries, and each end detects that the other
/// end was closed.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends a message, optionally with a descriptor. Returns [`Errno::AGAIN`] if the other side is slow.
pub(super) fn send(channel: BorrowedFd<'_>, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptor) = &descriptor {
        let descriptors = std::slice::from_ref(descriptor);
        if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::NOBUFS);
        }
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match sendmsg(channel, &[IoSlice::new(bytes)], &mut ancillary, flags) {
        // The maximum number of descriptors is in flight and will arrive.
        Err(Errno::TOOMANYREFS) => Err(Errno::AGAIN),
        sent => sent.map(drop),
    }
}

#[derive(Debug)]
pub(super) enum ReceiveOutcome {
    /// A message, and the descriptor that came with it.
    Message(Vec<u8>, Option<OwnedFd>),
    /// No message is available.
    Nothing,
    /// The other side has closed the channel.
    End,
}

pub(super) fn receive(channel: BorrowedFd<'_>) -> ReceiveOutcome {
    let mut bytes = vec![0; MAX_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    loop {
        let received = recvmsg(channel, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
        return match received {
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => ReceiveOutcome::Nothing,
            Err(_) => ReceiveOutcome::End,
            // There are no empty messages.
            Ok(received) if received.bytes == 0 => ReceiveOutcome::End,
            Ok(received) => {
                let descriptor = ancillary.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                    _ => None,
                });
                bytes.truncate(received.bytes);
                ReceiveOutcome::Message(bytes, descriptor)
            }
        };
    }
}
