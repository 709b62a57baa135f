//! Every planted bug is found within 500 seeds.

use leasehold_sim::planted::{Bug, find_all};

#[test]
fn every_planted_bug_is_found() {
    assert!(Bug::ALL.iter().filter(|bug| !bug.is_of_cluster()).count() >= 25);
    assert!(Bug::ALL.iter().filter(|bug| bug.is_of_cluster()).count() >= 38);
    let (report, all_found) = find_all(500, None);
    println!("{report}");
    assert!(all_found, "{report}");
}
