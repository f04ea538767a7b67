// SPDX-License-Identifier: GPL-2.0-only
//! A run: its threads, its end, and its report.

use std::panic::resume_unwind;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use rtrb::RingBuffer;

use super::check::{Order, balance};
use super::counter::Counter;
use super::interface::{InterfaceSink, InterfaceSource};
use super::packet::Packet;
use super::pcap::Replay;
use super::queue::{Receiver, Sender, hand_over};
use super::report::{Polls, Report, SCHEMA};
use super::sink::{Memory, PacketSink};
use super::source::{Generator, PacketSource};
use super::stages::{Process, ProcessEnd, Processor, Receive, ReceiveEnd, Transmit, TransmitEnd};
use super::table::Table;
use super::variant::Operation;
use super::{Error, Source, Spec};
use crate::signals::{Interrupts, Mask};
use crate::stop::{Stop, now_ns};

/// Runs the pipeline on three new threads, named `R`, `P` and `T`, while the calling thread sleeps.
///
/// `each_interval` is called on the calling thread every `spec.interval` with the packets per second since the last
/// call. At the stop R receives no more, and what it has received still goes its way. Leaks some hundred bytes per
/// run, which a late signal handler may still read.
///
/// # Errors
/// If `spec` is out of range, a device, file or thread cannot be had, a device fails meanwhile, or a check fails:
/// within a flow no packet may be lost or overtaken, and every one received must be transmitted or counted as dropped.
pub fn run(spec: &Spec, each_interval: &mut dyn FnMut(f64)) -> Result<Report, Error> {
    check_ranges(spec)?;
    let operation = operation(spec)?;
    let stop: &'static Stop = Box::leak(Box::default());
    let _interrupts = spec
        .catch_interrupts
        .then(|| Interrupts::catch(stop))
        .transpose()?;
    let mut source = open_source(spec)?;
    let mut sink = open_sink(spec)?;
    let counter = Counter::new(spec.counter.as_deref())?;
    let table_bytes = match spec.table_bytes {
        Some(bytes) => bytes,
        None => spec.variant.memory().table_bytes_here()?,
    };
    let table = Table::new(table_bytes, spec.seed)?;
    let pipeline = Pipeline {
        spec,
        operation,
        table: &table,
        counter: &counter,
        stop,
    };
    let course = pipeline.run(&mut *source, &mut *sink, each_interval)?;
    report(&pipeline, &course, source.lost())
}

fn check_ranges(spec: &Spec) -> Result<(), Error> {
    let check = |what, value: u64, least: u64, most: u64| {
        let expected = format!("from {least} to {most}");
        (least..=most)
            .contains(&value)
            .then_some(())
            .ok_or(Error::OutOfRange {
                what,
                value,
                expected,
            })
    };
    check(
        "a number of buffers",
        spec.buffers.into(),
        1,
        Spec::MAX_BUFFERS.into(),
    )?;
    if let Source::Generated { flows, packet_bytes } = spec.source {
        check("a number of flows", flows.into(), 1, Spec::MAX_FLOWS.into())?;
        check("a packet size in bytes", packet_bytes.into(), 64, 1518)?;
    }
    for (what, time) in [
        ("a duration in ns", spec.duration),
        ("an interval in ns", spec.interval),
    ] {
        if let Some(time) = time {
            check(what, in_ns(time), 1, u64::MAX)?;
        }
    }
    if let Some(packets) = spec.packets {
        check("a number of packets", packets, 1, u64::MAX)?;
    }
    if spec.duration.is_none() && spec.packets.is_none() {
        return Err(Error::NoEnd);
    }
    Ok(())
}

fn operation(spec: &Spec) -> Result<Option<(Operation, u32)>, Error> {
    let variant = spec.variant;
    match (variant.operation(), spec.operations) {
        (Some(operation), times) => Ok(Some((operation, times.unwrap_or(Spec::DEFAULT_OPERATIONS)))),
        (None, Some(_)) => Err(Error::NoOperations { variant }),
        (None, None) => Ok(None),
    }
}

fn open_source(spec: &Spec) -> Result<Box<dyn PacketSource>, Error> {
    Ok(match &spec.source {
        Source::Generated { flows, packet_bytes } => {
            Box::new(Generator::new(*flows, *packet_bytes, spec.seed))
        }
        Source::Pcap { path } => Box::new(Replay::open(path)?),
        Source::Interface { name } => Box::new(InterfaceSource::open(name)?),
    })
}

fn open_sink(spec: &Spec) -> Result<Box<dyn PacketSink>, Error> {
    Ok(match &spec.interface_out {
        Some(name) => Box::new(InterfaceSink::open(name)?),
        None => Box::new(Memory),
    })
}

/// What the threads of a run share.
#[derive(Clone, Copy)]
struct Pipeline<'a> {
    spec: &'a Spec,
    operation: Option<(Operation, u32)>,
    table: &'a Table,
    counter: &'a Counter,
    stop: &'static Stop,
}

/// What the three threads did.
struct Course {
    receive: ReceiveEnd,
    process: ProcessEnd,
    transmit: TransmitEnd,
}

/// Ends the run when dropped: whatever way a thread ends, the others must not wait for it.
struct EndRun(&'static Stop);

impl Drop for EndRun {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl<'a> Pipeline<'a> {
    fn run(
        self,
        source: &mut dyn PacketSource,
        sink: &mut dyn PacketSink,
        each_interval: &mut dyn FnMut(f64),
    ) -> Result<Course, Error> {
        let buffers = self.spec.buffers as usize;
        let mut pool: Vec<Packet> = (0..buffers).map(|_| Packet::default()).collect();
        let (r_out, p_in) = RingBuffer::new(buffers);
        let (p_out, t_in) = RingBuffer::new(buffers);
        let (mut t_out, r_in) = RingBuffer::new(buffers);
        pool.iter_mut().for_each(|packet| hand_over(&mut t_out, packet));
        let receive = self.receive(source, r_in, r_out);
        let process = self.process(p_in, p_out);
        let transmit = self.transmit(sink, t_in, t_out);
        let stop = self.stop;
        let mask = Mask::block_all();
        std::thread::scope(|scope| {
            let _end = EndRun(stop);
            // R last, so that the pipeline is complete when the first packet comes.
            let t = spawn(scope, "T", move || {
                let _end = EndRun(stop);
                transmit.run()
            })?;
            let p = spawn(scope, "P", move || process.run())?;
            let r = spawn(scope, "R", move || receive.run())?;
            mask.admit_stop();
            self.sleep(each_interval);
            // A packet that P or T waits for comes from R, so R's error, if any, is the cause of what else went wrong.
            let (r, p, t) = (join(r), join(p), join(t));
            Ok(Course {
                receive: r?,
                process: p,
                transmit: t?,
            })
        })
    }

    fn receive<'s, 'pool>(
        &self,
        source: &'s mut dyn PacketSource,
        free: Receiver<'pool>,
        out: Sender<'pool>,
    ) -> Receive<'s, 'pool> {
        Receive {
            source,
            free,
            out,
            stop: self.stop,
            packets: self.spec.packets.unwrap_or(u64::MAX),
            wait: self.spec.wait,
        }
    }

    fn process<'pool>(&self, input: Receiver<'pool>, out: Sender<'pool>) -> Process<'a, 'pool> {
        Process {
            processor: Processor {
                table: self.table,
                lookups: self.spec.variant.lookups(),
                work: self.operation,
            },
            input,
            out,
            wait: self.spec.wait,
        }
    }

    fn transmit<'s, 'pool>(
        &self,
        sink: &'s mut dyn PacketSink,
        input: Receiver<'pool>,
        free: Sender<'pool>,
    ) -> Transmit<'s, 'pool>
    where
        'a: 's,
    {
        let stamped_flows = match self.spec.source {
            Source::Generated { flows, .. } => Some(flows),
            Source::Pcap { .. } | Source::Interface { .. } => None,
        };
        Transmit {
            sink,
            input,
            free,
            order: Order::new(stamped_flows.unwrap_or(1)),
            is_stamped: stamped_flows.is_some(),
            counter: self.counter,
            stop: self.stop,
            wait: self.spec.wait,
        }
    }

    /// Sleeps until the run stops, and stops it when its time has come.
    fn sleep(&self, each_interval: &mut dyn FnMut(f64)) {
        let started_at_ns = now_ns();
        let after = |time: Option<Duration>, from_ns: u64| {
            time.map_or(u64::MAX, |time| from_ns.saturating_add(in_ns(time)))
        };
        let end_ns = after(self.spec.duration, started_at_ns);
        let mut due_ns = after(self.spec.interval, started_at_ns);
        let (mut last_ns, mut last_packets) = (started_at_ns, 0);
        loop {
            self.stop.sleep_until(due_ns.min(end_ns));
            let (now_ns, packets) = (now_ns(), self.counter.get());
            if self.stop.is_set() {
                return;
            }
            if now_ns >= due_ns {
                each_interval(per_second(packets.saturating_sub(last_packets), now_ns - last_ns));
                (last_ns, last_packets) = (now_ns, packets);
                // From when it was due, so that lateness does not add up; but none is made up for.
                due_ns = after(self.spec.interval, due_ns).max(now_ns);
            }
            if now_ns >= end_ns {
                return self.stop.set();
            }
        }
    }
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &'static str,
    stage: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Error> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, stage)
        .map_err(|reason| Error::Thread { name, reason })
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

fn report(pipeline: &Pipeline<'_>, course: &Course, lost_by_interface: Option<u64>) -> Result<Report, Error> {
    let Pipeline { spec, table, .. } = *pipeline;
    let Course {
        receive,
        process,
        transmit,
    } = course;
    let mut drops = process.drops;
    drops.unsent = transmit.unsent;
    balance(receive.packets, transmit.packets, &drops)?;
    let duration_ns = transmit.finished_at_ns.saturating_sub(receive.started_at_ns);
    Ok(Report {
        schema: SCHEMA.to_owned(),
        variant: spec.variant,
        table_bytes: table.bytes(),
        lookups: spec.variant.lookups(),
        operations: pipeline.operation.map_or(0, |(_, times)| times),
        source: spec.source.clone(),
        interface_out: spec.interface_out.clone(),
        wait: spec.wait,
        buffers: spec.buffers,
        seed: spec.seed,
        started_at_ns: receive.started_at_ns,
        duration_s: duration_ns as f64 / 1e9,
        interrupted: pipeline.stop.was_interrupted(),
        packets: transmit.packets,
        packets_per_s: per_second(transmit.packets, duration_ns),
        received: receive.packets,
        drops,
        polls: Polls {
            receive: receive.polls,
            process: process.polls,
            transmit: transmit.polls,
        },
        lost_by_interface,
    })
}

fn per_second(packets: u64, ns: u64) -> f64 {
    if ns == 0 {
        0.0
    } else {
        packets as f64 * 1e9 / ns as f64
    }
}

fn in_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::packet::Stamp;
    use super::super::sink::Sent;
    use super::super::source::Received;
    use super::super::{Drops, ipv4};
    use super::*;

    /// Generated packets of one flow, changed by their number.
    struct Changed<F> {
        generator: Generator,
        change: F,
        nr: u64,
    }

    fn changed<F: FnMut(u64, &mut Generator, &mut Packet) + Send>(change: F) -> Changed<F> {
        Changed {
            generator: Generator::new(1, 64, 1),
            change,
            nr: 0,
        }
    }

    impl<F: FnMut(u64, &mut Generator, &mut Packet) + Send> PacketSource for Changed<F> {
        fn receive(&mut self, packet: &mut Packet) -> Result<Received, Error> {
            self.generator.receive(packet)?;
            (self.change)(self.nr, &mut self.generator, packet);
            self.nr += 1;
            Ok(Received::Packet)
        }
    }

    /// Has room at every second look, and fails after some packets.
    struct Slow {
        looks: u64,
        fails_after: u64,
    }

    impl PacketSink for Slow {
        fn mac(&self) -> [u8; 6] {
            [2; 6]
        }

        fn send(&mut self, frame: &[u8]) -> Result<Sent, Error> {
            assert_eq!(frame[6..12], [2; 6]);
            self.looks += 1;
            if self.looks > 2 * self.fails_after {
                return Err(Error::Interface {
                    call: "send",
                    interface: "test".to_owned(),
                    reason: io::ErrorKind::NotConnected.into(),
                    advice: "",
                });
            }
            Ok(if self.looks.is_multiple_of(2) {
                Sent::Sent
            } else {
                Sent::Busy
            })
        }
    }

    fn run_with(source: &mut dyn PacketSource, sink: &mut dyn PacketSink) -> Result<Report, Error> {
        let spec = Spec {
            source: Source::Generated {
                flows: 1,
                packet_bytes: 64,
            },
            duration: None,
            packets: Some(2000),
            buffers: 16,
            ..Spec::default()
        };
        let pipeline = Pipeline {
            spec: &spec,
            operation: None,
            table: &Table::new(4096, 1)?,
            counter: &Counter::new(None)?,
            stop: Box::leak(Box::default()),
        };
        let course = pipeline.run(source, sink, &mut |_| ())?;
        assert_eq!(pipeline.counter.get(), course.transmit.packets);
        report(&pipeline, &course, None)
    }

    #[test]
    fn bad_packets_are_counted_by_reason_and_the_rest_goes_on() {
        let mut source = changed(|nr, _, packet| {
            let frame = packet.frame_mut();
            match nr % 10 {
                1 => frame[12] = 0,
                2 | 3 => frame[25] ^= 1,
                4 => frame[22] = 1,
                5 => frame[30] = 224,
                _ => (),
            }
            if matches!(nr % 10, 4 | 5) {
                ipv4::write_checksum(&mut frame[14..34]);
            }
        });
        let report = run_with(&mut source, &mut Memory).unwrap();
        let expected = Drops {
            malformed: 200,
            bad_checksum: 400,
            ttl_expired: 200,
            no_route: 200,
            unsent: 0,
        };
        assert_eq!((report.packets, report.received), (1000, 2000));
        assert_eq!(report.drops, expected);
    }

    #[test]
    fn a_packet_that_is_lost_in_its_flow_ends_the_run() {
        let mut source = changed(|nr, generator, packet| {
            if nr == 100 {
                generator.receive(packet).unwrap();
            }
        });
        let error = run_with(&mut source, &mut Memory).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Order {
                    flow: 0,
                    expected: 100,
                    found: 101
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_packet_whose_stamp_is_spoiled_ends_the_run() {
        let mut source = changed(|nr, _, packet| {
            if nr == 100 {
                packet.frame_mut()[Stamp::AT] ^= 1;
            }
        });
        let error = run_with(&mut source, &mut Memory).unwrap_err();
        assert!(matches!(error, Error::NoStamp { arrival: 100 }), "{error}");
    }

    #[test]
    fn a_busy_sink_gets_every_packet() {
        let mut sink = Slow {
            looks: 0,
            fails_after: u64::MAX / 2,
        };
        let report = run_with(&mut changed(|_, _, _| ()), &mut sink).unwrap();
        assert_eq!(
            (report.packets, report.drops.total(), sink.looks),
            (2000, 0, 4000)
        );
        assert!(report.polls.transmit >= 2000);
    }

    #[test]
    fn devices_that_fail_end_the_run() {
        let mut sink = Slow {
            looks: 0,
            fails_after: 50,
        };
        let error = run_with(&mut changed(|_, _, _| ()), &mut sink).unwrap_err();
        assert!(matches!(error, Error::Interface { call: "send", .. }), "{error}");

        struct Broken;
        impl PacketSource for Broken {
            fn receive(&mut self, _: &mut Packet) -> Result<Received, Error> {
                Err(Error::NoEnd)
            }
        }
        assert!(matches!(run_with(&mut Broken, &mut Memory), Err(Error::NoEnd)));
    }

    #[test]
    #[should_panic(expected = "a stage that panics")]
    fn a_panic_reaches_the_caller() {
        let mut source = changed(|nr, _, _| assert!(nr < 100, "a stage that panics"));
        let _ = run_with(&mut source, &mut Memory);
    }
}
