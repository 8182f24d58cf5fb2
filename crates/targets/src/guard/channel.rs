//! Messages and descriptors over the socket between gcwatch and its guard. No call waits.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::guard::message::MOST_BYTES;

/// Both ends of a new channel: messages keep their bounds, and the end of one side is seen by the other.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends a message, with a descriptor or without. [`Errno::AGAIN`]: the other side is slow.
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
        // As many descriptors are on their way as one may have: they arrive.
        Err(Errno::TOOMANYREFS) => Err(Errno::AGAIN),
        sent => sent.map(drop),
    }
}

#[derive(Debug)]
pub(super) enum Received {
    /// A message, and its descriptor if one came.
    Message(Vec<u8>, Option<OwnedFd>),
    /// Nothing is there now.
    Nothing,
    /// The other side is gone.
    End,
}

pub(super) fn receive(channel: BorrowedFd<'_>) -> Received {
    let mut bytes = vec![0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    loop {
        let received = recvmsg(channel, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
        return match received {
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Received::Nothing,
            // No message is empty.
            Err(_) => Received::End,
            Ok(received) if received.bytes == 0 => Received::End,
            Ok(received) => {
                let descriptor = ancillary.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                    _ => None,
                });
                bytes.truncate(received.bytes);
                Received::Message(bytes, descriptor)
            }
        };
    }
}
