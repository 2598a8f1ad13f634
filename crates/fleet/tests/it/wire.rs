//! What clients, managers and workers say to each other in protobuf, and what watchers are told:
//! each is read as it was written, and bytes that nobody has written cost no more than they are
//! worth. What managers and workers say to each other in sealed messages is tested where it is
//! defined, in `control`.

mod allocations;
mod events;
mod messages;
