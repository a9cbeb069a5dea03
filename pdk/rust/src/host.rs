//! The functions of the host as they are: see abi/SPEC.md, section 4.

#[cfg(target_arch = "wasm32")]
mod imports {
    #[link(wasm_import_module = "blade_v1")]
    extern "C" {
        #[link_name = "take"]
        pub fn blade_take(slot: u32, ptr: *mut u8, cap: usize) -> usize;
        #[link_name = "call"]
        pub fn blade_call(name: *const u8, name_len: usize, ptr: *const u8, len: usize) -> u64;
        #[link_name = "yield"]
        pub fn blade_yield(ptr: *const u8, len: usize) -> i32;
        #[link_name = "ret"]
        pub fn blade_ret(status: i32, ptr: *const u8, len: usize);
        #[link_name = "log"]
        pub fn blade_log(level: i32, ptr: *const u8, len: usize);
        #[link_name = "cancelled"]
        pub fn blade_cancelled() -> i32;
        #[link_name = "deadline"]
        pub fn blade_deadline() -> i64;
    }

    #[link(wasm_import_module = "wasi_snapshot_preview1")]
    extern "C" {
        #[link_name = "poll_oneoff"]
        pub fn blade_poll(subscriptions: *const u64, events: *mut u64, n: u32, count: *mut u32) -> i32;
        #[link_name = "random_get"]
        pub fn blade_random(ptr: *mut u8, len: usize) -> i32;
    }
}

// On another target there is no host: `cargo test` runs what needs none.
#[cfg(not(target_arch = "wasm32"))]
#[allow(clippy::missing_safety_doc)]
mod imports {
    pub unsafe fn blade_take(_: u32, _: *mut u8, _: usize) -> usize { 0 }
    pub unsafe fn blade_call(_: *const u8, _: usize, _: *const u8, _: usize) -> u64 { 7 << 48 }
    pub unsafe fn blade_yield(_: *const u8, _: usize) -> i32 { 0 }
    pub unsafe fn blade_ret(_: i32, _: *const u8, _: usize) {}
    pub unsafe fn blade_log(_: i32, _: *const u8, _: usize) {}
    pub unsafe fn blade_cancelled() -> i32 { 0 }
    pub unsafe fn blade_deadline() -> i64 { -1 }
    pub unsafe fn blade_poll(_: *const u64, _: *mut u64, _: u32, _: *mut u32) -> i32 { 0 }
    pub unsafe fn blade_random(_: *mut u8, _: usize) -> i32 { 1 }
}

/// Takes `len` bytes of a slot, or what there is.
pub fn take(slot: u32, len: usize) -> Vec<u8> {
    let mut b = vec![0; len];
    let mut n = 0;
    while n < len {
        // SAFETY: the pointer and the length name the rest of b.
        match unsafe { imports::blade_take(slot, b[n..].as_mut_ptr(), len - n) } {
            0 => break,
            k => n += k,
        }
    }
    b.truncate(n);
    b
}

/// Drops an answer.
pub fn drop_slot(slot: u32) {
    let mut none = [0u8; 1];
    // SAFETY: no byte is written.
    unsafe { imports::blade_take(slot, none.as_mut_ptr(), 0) };
}

/// Asks a service: the status, the slot and the length of the answer.
pub fn call(name: &str, frame: &[u8]) -> (u16, u32, usize) {
    // SAFETY: both are read before the function returns.
    let a = unsafe { imports::blade_call(name.as_ptr(), name.len(), frame.as_ptr(), frame.len()) };
    ((a >> 48) as u16, (a >> 32) as u32 & 0xffff, a as u32 as usize)
}

pub fn send(json: &str) -> i32 {
    // SAFETY: it is read before the function returns.
    unsafe { imports::blade_yield(json.as_ptr(), json.len()) }
}

pub fn ret(status: i32, json: &str) {
    // SAFETY: it is copied before the function returns.
    unsafe { imports::blade_ret(status, json.as_ptr(), json.len()) }
}

pub fn log(level: i32, text: &str) {
    // SAFETY: it is read before the function returns.
    unsafe { imports::blade_log(level, text.as_ptr(), text.len()) }
}

pub fn cancelled() -> i32 {
    // SAFETY: it takes nothing.
    unsafe { imports::blade_cancelled() }
}

pub fn deadline() -> i64 {
    // SAFETY: it takes nothing.
    unsafe { imports::blade_deadline() }
}

/// Waits for at most this long, by the monotonic clock.
pub fn sleep(nanoseconds: u64) {
    let subscription = [0, 0, 1, nanoseconds, 0, 0];
    let (mut event, mut n) = ([0u64; 4], 0u32);
    // SAFETY: one subscription has 48 bytes, one event 32.
    unsafe { imports::blade_poll(subscription.as_ptr(), event.as_mut_ptr(), 1, &mut n) };
}

pub fn random(b: &mut [u8]) -> bool {
    // SAFETY: the pointer and the length name b.
    unsafe { imports::blade_random(b.as_mut_ptr(), b.len()) == 0 }
}
