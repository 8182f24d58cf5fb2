//! Decodes any bytes as diagnostics messages: frames, requests, answers, process infos, environments, advertisements.
//! Decoding does not panic, and a fully decoded message round-trips unchanged.
#![no_main]

use dotnet_diagnostics::message::{
    Advertise, Answer, InfoVersion, ProcessInfo, Progress, Request, decode_environment, decode_environment_header,
    decode_frame, decode_session_id,
};
use libfuzzer_sys::fuzz_target;

fn payload(payload: &[u8]) {
    let _any = decode_session_id(payload);
    let _any = decode_environment_header(payload);
    for version in [InfoVersion::V1, InfoVersion::V2, InfoVersion::V3] {
        if let Ok(info) = ProcessInfo::decode(version, payload)
            && let Ok(encoded) = info.encode()
        {
            assert_eq!(ProcessInfo::decode(version, &encoded).as_ref(), Ok(&info));
        }
    }
    let _any = decode_environment(payload);
}

fuzz_target!(|bytes: &[u8]| {
    payload(bytes);
    if let Ok(advertise) = Advertise::decode(bytes) {
        assert_eq!(Advertise::decode(&advertise.encode()), Ok(advertise));
    }
    if let Ok(Progress::Complete { frame, .. }) = decode_frame(bytes) {
        payload(frame.payload);
        let _any = Answer::decode(frame);
        if let Ok(request) = Request::decode(frame)
            && let Ok(encoded) = request.encode()
        {
            let Ok(Progress::Complete { frame, .. }) = decode_frame(&encoded) else {
                panic!("an encoded request is not a frame");
            };
            assert_eq!(Request::decode(frame), Ok(request));
        }
    }
});
