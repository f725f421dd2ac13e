//! Where the planned faults strike, and how everything heals afterwards.

use super::fault::Fault;
use super::world::{Doing, LEASE_MS, MARGIN_MS, World};
use crate::world::place::Key;

/// The first boot of a clone: the host that it was made of does not come as far.
const CLONE_BOOT: u32 = 5;

impl World {
    /// Lets one planned fault strike.
    pub(super) fn strike(&mut self) {
        match self.random.below(32) {
            _ if self.plan.writes_may_be_lost && self.random.chance(35) => {
                self.struck_all(Fault::WritesLost);
                self.replace_store();
            }
            0..6 => self.crash_owner(),
            6..9 => self.pause_owner(),
            9..12 => self.cut_owner(),
            12..15 => {
                self.struck_all(Fault::StoreCrash);
                self.crash_store(false);
            }
            15..19 => {
                self.struck_all(Fault::TornWrite);
                self.crash_store(true);
            }
            19..22 => self.crash_keeper(),
            22..24 => {
                self.struck_all(Fault::Failover);
                self.trace.say(self.now, || "another server takes over".to_owned());
                self.store.fail_over();
            }
            24..26 => self.reboot(),
            26..28 => self.suspend(),
            28 if self.plan.host_may_go => self.lose_host(),
            28..31 if self.plan.host_may_be_cloned => self.clone_host(),
            _ => self.jump_clock(),
        }
    }

    fn crash_owner(&mut self) {
        let no = self.random.below(3) as usize;
        self.struck_all(Fault::OwnerCrash);
        self.trace.say(self.now, || format!("w{no} dies"));
        self.processes[no].crash();
        let longest = if self.random.chance(50) { 500 } else { 8_000 };
        let away = 50 + self.random.below(longest);
        self.after(away, Doing::Restart(no));
    }

    fn pause_owner(&mut self) {
        let no = self.random.below(3) as usize;
        self.struck_all(Fault::OwnerPause);
        self.trace.say(self.now, || format!("w{no} stands still"));
        let still = LEASE_MS + MARGIN_MS + self.random.below(3_000);
        self.processes[no].paused_until = self.now + still;
    }

    fn cut_owner(&mut self) {
        let no = self.random.below(3) as usize;
        self.struck_all(Fault::JournalCut);
        self.trace.say(self.now, || format!("w{no} is cut off"));
        let away = 500 + self.random.below(9_000);
        self.processes[no].cut_until = self.now + away;
    }

    /// A shim is killed. Mostly its guard ends the tree; when both are hit, the tree runs on as an orphan.
    fn crash_keeper(&mut self) {
        let keepers: Vec<Key> =
            self.places.iter_mut().filter_map(|(key, place)| place.kept().map(|_| *key)).collect();
        if keepers.is_empty() {
            return self.crash_owner();
        }
        let key = *self.random.pick(&keepers);
        let both = self.random.chance(25);
        let (now, guard_ms) = (self.now, 1 + self.random.below(60));
        if let Some(job) = self.plan.ids.iter().position(|id| *id == key.job) {
            self.struck(Fault::KeeperCrash, job);
        }
        self.places.entry(key).or_default().kill_keeper(both, now);
        self.trace
            .say(now, || format!("keeper of {key:?} dies{}", if both { ", its guard too" } else { "" }));
        if !both {
            self.after(guard_ms, Doing::GuardEnds(key));
        }
        self.rouse_listeners(key);
    }

    fn reboot(&mut self) {
        let host = self.random.below(2) as usize;
        if self.hosts[host].gone {
            return self.crash_owner();
        }
        self.struck_all(Fault::Reboot);
        let off = 200 + self.random.below(3_000);
        self.trace.say(self.now, || format!("h{host} boots again, {off} ms"));
        self.hosts[host].reboot(self.now, off);
        for (_, place) in self.places.iter_mut().filter(|(key, _)| key.host == host) {
            place.power_off(self.now);
        }
        for no in 0..self.processes.len() {
            if self.processes[no].host == host {
                self.processes[no].crash();
                let later = off + self.random.below(500);
                self.after(later, Doing::Restart(no));
            }
        }
    }

    /// The second host is started again from an image of the first: whatever ran on it is gone.
    fn clone_host(&mut self) {
        let (first, second) = (self.processes[0].name.clone(), 2);
        if self.hosts[1].gone || self.processes[second].name == first {
            return self.crash_owner();
        }
        self.struck_all(Fault::HostCloned);
        let off = 200 + self.random.below(1_000);
        self.trace.say(self.now, || format!("h1 becomes a clone of h0, {off} ms"));
        self.hosts[1].reboot(self.now, off);
        self.hosts[1].boot = CLONE_BOOT;
        for (_, place) in self.places.iter_mut().filter(|(key, _)| key.host == 1) {
            place.power_off(self.now);
        }
        let host_id = self.processes[0].host_id.clone();
        let clone = &mut self.processes[second];
        clone.crash();
        (clone.name, clone.host_id) = (first, host_id);
        let later = off + self.random.below(500);
        self.after(later, Doing::Restart(second));
    }

    fn suspend(&mut self) {
        let host = self.random.below(2) as usize;
        self.struck_all(Fault::Suspend);
        let nap = 500 + self.random.below(8_000);
        self.trace.say(self.now, || format!("h{host} sleeps {nap} ms"));
        self.hosts[host].sleep(self.now, nap);
    }

    fn jump_clock(&mut self) {
        let host = self.random.below(2) as usize;
        self.struck_all(Fault::ClockJump);
        let jump = self.random.below(20_000) as i64 - 10_000;
        self.trace.say(self.now, || format!("the wall clock of h{host} jumps {jump} ms"));
        self.hosts[host].jump(jump);
    }

    /// A host goes for good: no process on it reaches the journal, and nothing reaches the host.
    fn lose_host(&mut self) {
        let host = self.random.below(2) as usize;
        if self.hosts.iter().any(|host| host.gone) {
            return self.crash_owner();
        }
        self.struck_all(Fault::HostGone);
        self.trace.say(self.now, || format!("h{host} is gone for good"));
        self.hosts[host].gone = true;
    }

    /// The faults are over: every process comes back, except on a host that is gone.
    pub(super) fn heal(&mut self) {
        (self.calm, self.calm_since) = (true, self.now);
        self.trace.say(self.now, || "calm".to_owned());
        for process in &mut self.processes {
            process.cut_until = 0;
            process.paused_until = process.paused_until.min(self.now + 1_000);
        }
        for no in 0..self.processes.len() {
            if !self.processes[no].up {
                let later = self.random.below(500);
                let off = self.hosts[self.processes[no].host].off_ms(self.now);
                self.after(off + later, Doing::Restart(no));
            }
        }
    }
}
