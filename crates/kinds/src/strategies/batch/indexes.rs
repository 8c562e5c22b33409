//! Index lists of Jobs such as `0,2-5`.

use object::field::go_quote;

/// The number of indexes in the list; an error with Kubernetes' message if it is not a list below `completions`.
pub fn count(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last
            && last >= first
        {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let ends: Vec<&str> = part.split('-').collect();
    if ends.len() > 2 {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            go_quote(part)
        ));
    }
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {}", go_quote(text))),
        Ok(n) if n >= completions => Err(format!("too large index: {}", go_quote(text))),
        Ok(n) => Ok(n),
    };
    let first = index(ends[0])?;
    match ends.get(1) {
        None => Ok((first, first)),
        Some(end) => {
            let end = index(end)?;
            if first >= end {
                return Err(format!("non-increasing order, previous: {first}, current: {end}"));
            }
            Ok((first, end))
        }
    }
}

/// The first index in both lists; invalid intervals are skipped.
pub fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let parse = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter(|_| !text.is_empty()).filter_map(|p| interval(p, completions).ok()).collect()
    };
    let (completed, failed) = (parse(completed), parse(failed));
    let (mut c, mut f) = (0, 0);
    while let (Some((c_first, c_last)), Some((f_first, f_last))) = (completed.get(c), failed.get(f)) {
        if c_first <= f_last && f_first <= c_last {
            return Some(*c_first.max(f_first));
        }
        if c_first <= f_first {
            c += 1;
        } else {
            f += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_lists_are_counted_or_refused() {
        assert_eq!(count("", 5), Ok(0));
        assert_eq!(count("0,2-4", 5), Ok(4));
        assert_eq!(count("2,1", 5), Err("non-increasing order, previous: 2, current: 1".to_owned()));
        assert_eq!(count("5", 5), Err("too large index: \"5\"".to_owned()));
        assert_eq!(overlap("0-3", "3,4", 5), Some(3));
        assert_eq!(overlap("0-2", "3,4", 5), None);
    }
}
