//! Runs code in the network namespace of a pod, and sends the netlink messages that change it.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs a function in the network namespace of a process. Sockets it opens stay there. Blocks.
pub(crate) fn within<T: Send + 'static>(
    pid: u64,
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    // A dedicated thread: it cannot leave the namespace again, and exits afterwards.
    let thread = std::thread::Builder::new().name("pod-network".to_owned()).spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        act()
    })?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the network namespace thread panicked")))
}

/// Makes all addresses of a range local, so that they can be listened on.
pub(crate) fn own_range(address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    match converse(&own_range_message(address, prefix)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Removes a link by its index.
pub(crate) fn remove_link(index: i32) -> io::Result<()> {
    const RTM_DELLINK: u16 = 17;
    let mut message = header(RTM_DELLINK, 0, 32);
    message.extend([0; 4]);
    message.extend(index.to_ne_bytes());
    message.extend([0; 8]);
    converse(&message)
}

/// Sends a netlink message and reads the response.
fn converse(message: &[u8]) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, message, SendFlags::empty())?;
    let mut answer = [0_u8; 512];
    let (read, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // The response header has sixteen bytes; the error code follows, negative or zero.
    let code = answer[..read].get(16..20).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
}

fn header(kind: u16, flags: u16, length: u32) -> Vec<u8> {
    const REQUEST_AND_ANSWER: u16 = 1 | 4;
    let mut message = Vec::with_capacity(64);
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((REQUEST_AND_ANSWER | flags).to_ne_bytes());
    message.extend([0; 8]);
    message
}

/// A route of type `local` through the loopback.
fn own_range_message(address: Ipv4Addr, prefix: u8) -> Vec<u8> {
    const RTM_NEWROUTE: u16 = 24;
    const CREATE: u16 = 0x400;
    const LOCAL_TABLE: u8 = 255;
    const BY_ADMINISTRATOR: u8 = 4;
    const ON_THIS_HOST: u8 = 254;
    const LOCAL: u8 = 2;
    const INET: u8 = 2;
    const LOOPBACK_INDEX: u32 = 1;
    let mut message = header(RTM_NEWROUTE, CREATE, 44);
    message.extend([INET, prefix, 0, 0, LOCAL_TABLE, BY_ADMINISTRATOR, ON_THIS_HOST, LOCAL]);
    message.extend([0; 4]);
    for (kind, value) in [(1_u16, address.octets()), (4, LOOPBACK_INDEX.to_ne_bytes())] {
        message.extend(8_u16.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(value);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_length_in_their_header() {
        let message = own_range_message(Ipv4Addr::new(10, 0, 0, 0), 16);
        assert_eq!(message.len(), 44);
        assert_eq!(u32::from_ne_bytes(message[..4].try_into().expect("four bytes")), 44);
    }
}
