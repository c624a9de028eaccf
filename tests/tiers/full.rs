//! The tier that a machine with everything has.

use anyhow::{Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{Product, Stage, cases_of, repos};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "full",
        [
            every_wall_is_proven_and_files_can_be_held,
            a_run_records_its_tier,
            bounds_are_kept_by_the_service_manager_where_there_is_one,
        ]
    )
}

fn every_wall_is_proven_and_files_can_be_held(stage: &Stage) -> Result<()> {
    let report = stage.product()?.ask(&["doctor"])?;
    ensure!(report["tier"] == "full", "{report}");
    for wall in report["walls"].as_array().into_iter().flatten() {
        ensure!(wall["holds"] == true || wall["wall"] == "cgroup", "{wall}");
    }
    let notes = report["notes"].to_string();
    ensure!(notes.contains("can be held: a program waited"), "{notes}");
    Ok(())
}

fn a_run_records_its_tier(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "tier")?;
    // What is accepted and not needed changes nothing.
    let options = ["--accept-weaker", "user_namespace"];
    let run = product.run_to_end(&repo, &options, &["sh", "-c", "echo done > done.txt"])?;
    let view = product.show(&run.id()?)?;
    ensure!(view["state"] == "review", "{view} {}", run.story());
    ensure!(view["confinement"] == "full", "{view}");
    ensure!(view["tier"] == "Network held, files confined", "{view}");
    Ok(())
}

/// On the bare machine, because only there the manager knows our processes.
fn bounds_are_kept_by_the_service_manager_where_there_is_one(stage: &Stage) -> Result<()> {
    let product = Product::on_host(&stage.bench).with_data(&stage.bench.scratch("data")?);
    let report = product.ask(&["doctor"])?;
    let walls = report["walls"].as_array();
    let cgroup = walls
        .into_iter()
        .flatten()
        .find(|wall| wall["wall"] == "cgroup");
    let promised = cgroup.is_some_and(|wall| wall["holds"] == true);
    let repo = repos::plain(&stage.bench, "bounds")?;
    let options = ["--bounds", "memory=512MiB,processes=64,cpu=1"];
    let run = product.run_to_end(&repo, &options, &["sh", "-c", "cat /proc/self/cgroup"])?;
    let view = product.show(&run.id()?)?;
    let kept = view["bounds_kept"].as_str().unwrap_or_default();
    ensure!(
        kept.contains("by the kernel in a control group") == promised,
        "the doctor promised {cgroup:?}, and the run says {kept}: {}",
        run.story()
    );
    Ok(())
}
