use super::*;
use crate::limits::{KEY_MAX, REQUEST_VALUE_MAX};

fn decode<'a, T: Element<'a>>(count: u32, bytes: &'a [u8]) -> Result<List<'a, T>, DecodeError> {
    List::decode(count, Reader::new(bytes))
}

fn key(bytes: &[u8]) -> Key<'_> {
    Key::new(bytes).unwrap()
}

#[test]
fn a_request_takes_as_many_keys_as_it_may() {
    let keys = vec![key(b"k"); MULTI_KEYS_MAX + 3];
    let (list, rest) = Keys::fitting(&keys);
    assert_eq!((list.len(), rest.len()), (MULTI_KEYS_MAX, 3));

    let (list, rest) = Keys::fitting(&[]);
    assert!(list.is_empty() && rest.is_empty());
}

#[test]
fn a_request_takes_as_many_bytes_as_it_may() {
    let bytes = vec![0; KEY_MAX];
    let keys = vec![key(&bytes); 40];
    let (list, rest) = Keys::fitting(&keys);
    assert_eq!(list.len(), LIST_BYTES_MAX / (2 + KEY_MAX));
    assert_eq!(list.len() + rest.len(), keys.len());
    assert!(list.encoded_len() <= LIST_BYTES_MAX);
}

#[test]
fn a_request_is_filled_to_the_last_byte() {
    let bytes = vec![0; KEY_MAX];
    let whole = LIST_BYTES_MAX / (2 + KEY_MAX);
    let last = LIST_BYTES_MAX - whole * (2 + KEY_MAX) - 2;
    let mut keys = vec![key(&bytes); whole];
    keys.push(key(&bytes[..last]));
    let (list, rest) = Keys::fitting(&keys);
    assert_eq!((list.encoded_len(), rest.len()), (LIST_BYTES_MAX, 0));

    keys[whole] = key(&bytes[..last + 1]);
    let (list, rest) = Keys::fitting(&keys);
    assert_eq!((list.len(), rest.len()), (whole, 1));
}

#[test]
fn one_key_too_many_is_refused() {
    let bytes = vec![0; 2 * (MULTI_KEYS_MAX + 1)];
    let count = MULTI_KEYS_MAX as u32;
    assert!(decode::<Key<'_>>(count, &bytes[2..]).is_ok());
    let error = DecodeError::Limit(LimitError::TooManyKeys { count: MULTI_KEYS_MAX + 1 });
    assert_eq!(decode::<Key<'_>>(count + 1, &bytes), Err(error));
}

/// Whatever can be put alone makes progress in a multi-put.
#[test]
fn the_largest_pair_fits() {
    let bytes = vec![0; REQUEST_VALUE_MAX];
    let value = Value::new(&bytes).unwrap();
    let pair = Pair { key: key(&bytes[..KEY_MAX]), value, expires_at_ms: Some(1) };
    let pairs = [pair; 2];
    let (list, rest) = Pairs::fitting(&pairs);
    assert_eq!((list.len(), rest.len()), (1, 1));
}

#[test]
fn both_sides_of_a_list_are_the_same_list() {
    let keys = [key(b"warp"), key(b""), key(b"weft")];
    let (sent, _) = Keys::fitting(&keys);
    let mut bytes = vec![0; sent.encoded_len()];
    let mut writer = Writer::new(&mut bytes);
    sent.encode(&mut writer);
    writer.finish();

    let received: Keys<'_> = decode(3, &bytes).unwrap();
    assert_eq!(received, sent);
    assert_eq!(received.iter().len(), 3);
    assert_eq!(received.into_iter().collect::<Vec<_>>(), keys);
    assert_eq!(format!("{received:?}"), format!("{sent:?}"));
    assert_ne!(received, Keys::fitting(&keys[..2]).0);

    // A list that was received is sent on as it is.
    let mut again = vec![0; received.encoded_len()];
    received.encode(&mut Writer::new(&mut again));
    assert_eq!(again, bytes);
}

#[test]
fn a_value_that_is_too_large_is_refused_in_a_pair_too() {
    let len = REQUEST_VALUE_MAX + 1;
    let head = [&[0, 0, 0, 0][..], &(len as u32).to_le_bytes()].concat();
    let bytes = [head, vec![0; len]].concat();
    let error = DecodeError::Limit(LimitError::RequestValueTooLarge { len });
    assert_eq!(decode::<Pair<'_>>(1, &bytes), Err(error));
}
