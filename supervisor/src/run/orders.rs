//! What people tell a run while it is on: pause, go on, stop, stop now.

use std::sync::Arc;
use tokio::sync::watch;

/// What the run is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    Go,
    /// Take up nothing new.
    Pause,
    /// Finish what is in flight, then end.
    Stop,
    /// End now; what is in flight is put back.
    Abandon,
}

impl Order {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Order::Go => "go",
            Order::Pause => "pause",
            Order::Stop => "drain",
            Order::Abandon => "abandon",
        }
    }
}

/// The order of the moment; cheap to clone. A run that was told to stop stays told.
#[derive(Debug, Clone)]
pub struct Orders {
    sender: Arc<watch::Sender<Order>>,
}

impl Default for Orders {
    fn default() -> Self {
        Orders { sender: Arc::new(watch::Sender::new(Order::Go)) }
    }
}

impl Orders {
    /// Gives an order.
    pub fn give(&self, order: Order) {
        self.sender.send_if_modified(|now| {
            let changes = if *now >= Order::Stop { order > *now } else { order != *now };
            if changes {
                *now = order;
            }
            changes
        });
    }

    /// The order of the moment.
    pub fn now(&self) -> Order {
        *self.sender.borrow()
    }

    /// Whether to stop.
    pub fn is_stopped(&self) -> bool {
        *self.sender.borrow() >= Order::Stop
    }

    /// Whether not even to finish what is in flight.
    pub fn is_abandoned(&self) -> bool {
        *self.sender.borrow() == Order::Abandon
    }

    /// Whether to take up nothing new for now.
    pub fn is_paused(&self) -> bool {
        *self.sender.borrow() == Order::Pause
    }

    /// Waits until the run is told to stop.
    pub async fn stopped(&self) {
        let mut orders = self.sender.subscribe();
        // The sender lives as long as `self`.
        drop(orders.wait_for(|order| *order >= Order::Stop).await);
    }

    /// Waits until the run is told to end now.
    pub async fn abandoned(&self) {
        let mut orders = self.sender.subscribe();
        drop(orders.wait_for(|order| *order == Order::Abandon).await);
    }

    /// Waits until the run is told something else than to pause.
    pub async fn resumed(&self) {
        let mut orders = self.sender.subscribe();
        drop(orders.wait_for(|order| *order != Order::Pause).await);
    }
}
