// SPDX-License-Identifier: GPL-2.0-only
//! The program's options on a command line.

use std::path::PathBuf;
use std::time::Duration;

use super::{Source, Spec, Variant, Wait};
use crate::arguments::seconds;

/// Forward packets in a pipeline of three threads and report how many.
///
/// R receives, P checks the header and looks the next hop up, T transmits. The threads are named R, P and T; the main
/// thread sleeps. Nothing is pinned: that is for whoever assigns threads to CPUs.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What P does with a packet.
    ///
    /// hash1 looks up once, hashN three times, in a table that fits into half of the L1 data cache (L1), half of the
    /// L2 cache (L2), or into no cache (Mem: four times the last one, 256 MiB at most). intadd, intmul and intdiv are
    /// hash1_L1 with integer instructions behind it.
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub variant: Variant,

    /// Integer instructions per packet, for intadd, intmul and intdiv [default: 200].
    #[arg(long, value_name = "N")]
    pub operations: Option<u32>,

    /// Size of the forwarding table in bytes [default: by variant and caches].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(64..=Spec::MAX_TABLE_BYTES))]
    pub table_bytes: Option<u64>,

    /// Generated flows [default: 64].
    ///
    /// Within each, T checks that no packet is lost or overtaken.
    #[arg(long, value_name = "N", conflicts_with_all = ["pcap", "interface_in"],
          value_parser = clap::value_parser!(u32).range(1..=i64::from(Spec::MAX_FLOWS)))]
    pub flows: Option<u32>,

    /// Size of generated packets in bytes, the FCS included [default: 64].
    #[arg(long, value_name = "N", conflicts_with_all = ["pcap", "interface_in"],
          value_parser = clap::value_parser!(u16).range(64..=1518))]
    pub packet_bytes: Option<u16>,

    /// Seed of the generated packets and of the forwarding table.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Replay the IPv4 packets of this pcap file, over and over.
    ///
    /// Files of Ethernet frames in the classic format. Over how many destinations the packets spread is then up to the
    /// file, and so is how much of the table is touched.
    #[arg(long, value_name = "FILE", conflicts_with = "interface_in")]
    pub pcap: Option<PathBuf>,

    /// Receive from this interface (needs CAP_NET_RAW).
    #[arg(long, value_name = "IF")]
    pub interface_in: Option<String>,

    /// Transmit to this interface (needs CAP_NET_RAW).
    #[arg(long, value_name = "IF")]
    pub interface_out: Option<String>,

    /// How threads wait for each other: spin needs a CPU for each.
    #[arg(long, value_enum, default_value_t)]
    pub wait: Wait,

    /// Packet buffers.
    #[arg(long, value_name = "N", default_value_t = Spec::default().buffers,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(Spec::MAX_BUFFERS)))]
    pub buffers: u32,

    /// How long to receive, in seconds [default: 10, or without end if --packets is given].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub seconds: Option<Duration>,

    /// How many packets to receive.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub packets: Option<u64>,

    /// Keep the number of packets transmitted so far in this file, for profilers to map.
    ///
    /// 8 bytes, little-endian, from 0 at the start. Do not shorten the file meanwhile.
    #[arg(long, value_name = "FILE")]
    pub counter: Option<PathBuf>,

    /// Print a line `packets_per_second N` at this interval.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub interval: Option<Duration>,
}

impl From<Args> for Spec {
    /// A run that SIGINT and SIGTERM end early.
    fn from(args: Args) -> Self {
        let default = Self::default();
        Self {
            variant: args.variant,
            operations: args.operations,
            table_bytes: args.table_bytes,
            duration: match args.packets {
                None => args.seconds.or(default.duration),
                Some(_) => args.seconds,
            },
            source: source(&args),
            interface_out: args.interface_out,
            wait: args.wait,
            buffers: args.buffers,
            packets: args.packets,
            seed: args.seed,
            counter: args.counter,
            interval: args.interval,
            catch_interrupts: true,
        }
    }
}

fn source(args: &Args) -> Source {
    match (&args.pcap, &args.interface_in) {
        (Some(path), _) => Source::Pcap { path: path.clone() },
        (None, Some(name)) => Source::Interface { name: name.clone() },
        (None, None) => Source::Generated {
            flows: args.flows.unwrap_or(Source::DEFAULT_FLOWS),
            packet_bytes: args.packet_bytes.unwrap_or(Source::DEFAULT_PACKET_BYTES),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn spec(line: &str) -> Result<Spec, clap::Error> {
        Command::try_parse_from(line.split_whitespace()).map(|command| command.args.into())
    }

    #[test]
    fn defaults_are_those_of_the_spec() {
        let expected = Spec {
            catch_interrupts: true,
            ..Spec::default()
        };
        assert_eq!(spec("pipeline").unwrap(), expected);
    }

    #[test]
    fn options_reach_the_spec() {
        let line = "pipeline --variant intdiv --operations 9 --table-bytes 4096 --flows 3 --packet-bytes 100 \
                    --seed 4 --interface-out if1 --wait spin --buffers 5 --seconds 0.5 --packets 6 --counter c \
                    --interval 2";
        let expected = Spec {
            variant: Variant::IntDiv,
            operations: Some(9),
            table_bytes: Some(4096),
            source: Source::Generated {
                flows: 3,
                packet_bytes: 100,
            },
            interface_out: Some("if1".to_owned()),
            wait: Wait::Spin,
            buffers: 5,
            duration: Some(Duration::from_millis(500)),
            packets: Some(6),
            seed: 4,
            counter: Some("c".into()),
            interval: Some(Duration::from_secs(2)),
            catch_interrupts: true,
        };
        assert_eq!(spec(line).unwrap(), expected);
        let source = |line| spec(line).unwrap().source;
        assert_eq!(source("pipeline --pcap f"), Source::Pcap { path: "f".into() });
        let name = "if0".to_owned();
        assert_eq!(source("pipeline --interface-in if0"), Source::Interface { name });
    }

    #[test]
    fn a_number_of_packets_takes_as_long_as_it_takes() {
        assert_eq!(spec("pipeline --packets 5").unwrap().duration, None);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "--variant hash2_L1",
            "--table-bytes 63",
            "--flows 0",
            "--packet-bytes 63",
            "--packet-bytes 1519",
            "--pcap f --interface-in if0",
            "--pcap f --flows 3",
            "--interface-in if0 --packet-bytes 64",
            "--wait maybe",
            "--buffers 0",
            "--seconds 0",
            "--seconds nan",
            "--seconds 1e300",
            "--packets 0",
            "--interval -1",
        ] {
            assert!(spec(&format!("pipeline {line}")).is_err(), "{line}");
        }
    }
}
