//! IP addresses and networks.

use super::{CallContext, Function, no_overload, no_overload_for};
use crate::value::{EvalError, Evaluated, Opaque, Value};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip(IpAddr);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "ip" => |context, args| match args {
            [Value::String(text)] => Ip::parse(text).map(ip_value).map_err(EvalError::new),
            [Value::Opaque(Opaque::Cidr(cidr))] => Ok(ip_value(Ip(cidr.address))),
            _ => no_overload_for(context, args),
        },
        "isIP" => |context, args| match args {
            [Value::String(text)] => Ok(Value::Bool(Ip::parse(text).is_ok())),
            _ => no_overload_for(context, args),
        },
        "ip.isCanonical" => |context, args| match args {
            [Value::String(text)] => {
                let ip = Ip::parse(text).map_err(EvalError::new)?;
                Ok(Value::Bool(ip.to_string() == **text))
            }
            _ => no_overload_for(context, args),
        },
        "family" => |context, args| match args {
            [Value::Opaque(Opaque::Ip(ip))] => Ok(Value::Int(if ip.0.is_ipv4() { 4 } else { 6 })),
            _ => no_overload_for(context, args),
        },
        "isUnspecified" => |context, args| test(context, args, |ip| ip.is_unspecified()),
        "isLoopback" => |context, args| test(context, args, |ip| ip.is_loopback()),
        "isLinkLocalMulticast" => |context, args| test(context, args, is_link_local_multicast),
        "isLinkLocalUnicast" => |context, args| test(context, args, is_link_local_unicast),
        "isGlobalUnicast" => |context, args| test(context, args, is_global_unicast),
        "cidr" => |context, args| match args {
            [Value::String(text)] => Cidr::parse(text).map(cidr_value).map_err(|cause| {
                EvalError::new(format!("network address parse error during conversion from string: {cause}"))
            }),
            _ => no_overload_for(context, args),
        },
        "isCIDR" => |context, args| match args {
            [Value::String(text)] => Ok(Value::Bool(Cidr::parse(text).is_ok())),
            _ => no_overload_for(context, args),
        },
        "containsIP" => |context, args| match args {
            [Value::Opaque(Opaque::Cidr(cidr)), Value::Opaque(Opaque::Ip(ip))] => Ok(Value::Bool(cidr.contains(ip.0))),
            [Value::Opaque(Opaque::Cidr(cidr)), Value::String(text)] => {
                Ip::parse(text).map_or_else(|_| no_overload(), |ip| Ok(Value::Bool(cidr.contains(ip.0))))
            }
            _ => no_overload_for(context, args),
        },
        "containsCIDR" => |context, args| match args {
            [Value::Opaque(Opaque::Cidr(cidr)), Value::Opaque(Opaque::Cidr(other))] => {
                Ok(Value::Bool(cidr.contains_cidr(other)))
            }
            [Value::Opaque(Opaque::Cidr(cidr)), Value::String(text)] => {
                Cidr::parse(text).map_or_else(|_| no_overload(), |other| Ok(Value::Bool(cidr.contains_cidr(&other))))
            }
            _ => no_overload_for(context, args),
        },
        "masked" => |context, args| match args {
            [Value::Opaque(Opaque::Cidr(cidr))] => Ok(cidr_value(cidr.masked())),
            _ => no_overload_for(context, args),
        },
        "prefixLength" => |context, args| match args {
            [Value::Opaque(Opaque::Cidr(cidr))] => Ok(Value::Int(i64::from(cidr.bits))),
            _ => no_overload_for(context, args),
        },
        _ => return None,
    })
}

fn ip_value<'a>(ip: Ip) -> Value<'a> {
    Value::Opaque(Opaque::Ip(ip))
}

fn cidr_value<'a>(cidr: Cidr) -> Value<'a> {
    Value::Opaque(Opaque::Cidr(cidr))
}

fn test<'a>(context: &CallContext, args: &[Value<'a>], holds: fn(IpAddr) -> bool) -> Evaluated<'a> {
    match args {
        [Value::Opaque(Opaque::Ip(ip))] => Ok(Value::Bool(holds(ip.0))),
        _ => no_overload_for(context, args),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn is_global_unicast(ip: IpAddr) -> bool {
    let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(is_broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local_unicast(ip))
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

impl Ip {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some((address, zone)) = text.split_once('%')
            && address.parse::<Ipv6Addr>().is_ok()
            && !zone.is_empty()
        {
            return Err(format!("IP address {text:?} with zone value is not allowed"));
        }
        let Ok(address) = text.parse::<IpAddr>() else {
            return Err(format!(
                "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
            ));
        };
        if is_mapped(address) {
            return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
        }
        Ok(Self(address))
    }

    pub(crate) fn byte_length(self) -> u64 {
        if self.0.is_ipv4() { 4 } else { 16 }
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Cidr {
    fn parse(text: &str) -> Result<Self, String> {
        let fault = |cause: &str| {
            format!("network address parse error during conversion from string: netip.ParsePrefix({text:?}): {cause}")
        };
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| fault("no '/'"))?;
        let shown = format!("ParseAddr({address:?}): unable to parse IP");
        let address: IpAddr = address.parse().map_err(|_| fault(&shown))?;
        if is_mapped(address) {
            return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
        }
        let plain =
            !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && (bits.len() == 1 || !bits.starts_with('0'));
        let parsed = bits.parse::<u8>().ok().filter(|_| plain);
        match parsed {
            Some(bits) if bits <= width(address) => Ok(Self { address, bits }),
            Some(_) => Err(fault("prefix length out of range")),
            None => Err(fault(&format!("bad bits after slash: {bits:?}"))),
        }
    }

    pub(crate) fn byte_length(self) -> u64 {
        u64::from(self.bits).div_ceil(8)
    }

    fn masked(self) -> Self {
        Self { address: mask(self.address, self.bits), bits: self.bits }
    }

    fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.address.is_ipv4() && mask(ip, self.bits) == mask(self.address, self.bits)
    }

    fn contains_cidr(self, other: &Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - bits.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(u32::from(128 - bits.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}
