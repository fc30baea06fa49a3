//! What endpoints leave behind: nothing.

use std::sync::Weak;
use std::time::Duration;

use super::*;
use crate::handler::NoHandler;

/// Two nodes that connect to each other at one moment, of whose connections one is too many; wherever in this
/// they are shut down, no connection outlives them.
#[test]
fn no_connection_outlives_its_endpoints() {
    for steps in 0..40 {
        let mut world = World::new(steps);
        let addresses = [0, 1].map(|at| world.node(at + 1, Arc::new(NoHandler), 16 << 20, |_| {}));
        let deadline = world.after(Duration::from_secs(60));
        for at in 0..2 {
            let (endpoint, to) = (world.endpoints[at].clone(), addresses[1 - at]);
            world.tasks.push(Box::pin(async move {
                let _ = endpoint.connect(to, deadline).await;
            }));
        }
        let mut cores: Vec<Weak<Core>> = Vec::new();
        for _ in 0..steps {
            if !world.step() {
                world.advance();
            }
            for endpoint in &world.endpoints {
                let reactor = endpoint.common().reactors.get().and_then(|all| all[0].upgrade());
                let reactor = reactor.expect("its endpoint lives");
                cores.extend(reactor.members.lock().values().map(Arc::downgrade));
            }
        }
        let shut_down = |world: World| {
            world.endpoints.iter().for_each(Endpoint::shutdown);
            drop(world);
        };
        shut_down(world);
        let left = cores.iter().filter(|core| core.upgrade().is_some()).count();
        assert_eq!(left, 0, "after {steps} steps");
    }
}
