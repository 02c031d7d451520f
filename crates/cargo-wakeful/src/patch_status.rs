//! Whether the shim replaces tokio, and if not, which packages prevent it.

use crate::project::{Demand, Project, Tokio, demands, tokios};
use crate::tokio_shim::REDUCED_FEATURES;
use serde_json::Value;
use std::fmt;

/// The result of resolving the dependencies with the shim.
pub enum PatchStatus {
    /// The shim is the only package named `tokio` of its major version.
    Applied(Applied),
    NotApplied(NotApplied),
}

/// The shim replaces tokio.
pub struct Applied {
    shim: Tokio,
    /// Packages named `tokio` of other major versions, which are not replaced.
    others: Vec<Tokio>,
    /// Features without effect, the reason, and the packages that enable them.
    pub reduced_features: Vec<(&'static str, &'static str, Vec<String>)>,
}

/// The shim does not replace tokio.
pub struct NotApplied {
    shim: semver::Version,
    tokios: Vec<Tokio>,
    obstacles: Vec<Obstacle>,
    /// The error of cargo when asked to change the locked version to the shim's version.
    refusal: Option<String>,
}

/// A dependency that prevents the replacement.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    Version { by: String, requirement: String },
    Feature { by: String, feature: String },
}

impl PatchStatus {
    pub fn of(project: &Project, metadata: &Value, refusal: Option<String>) -> Self {
        let shim = project.shim;
        let (demands, tokios) = (demands(metadata), tokios(metadata));
        let is_shim = |tokio: &Tokio| {
            let folder = tokio.manifest.parent().and_then(|folder| folder.canonicalize().ok());
            tokio.source.is_none() && folder.as_ref() == Some(&shim.folder)
        };
        let (mut shims, others): (Vec<Tokio>, Vec<Tokio>) = tokios.into_iter().partition(is_shim);
        let has_rival = others.iter().any(|tokio| tokio.version.major == shim.version.major);
        match shims.pop() {
            Some(shim) if !has_rival => {
                let reduced_features = reduced_features(&demands);
                PatchStatus::Applied(Applied { shim, others, reduced_features })
            }
            _ => PatchStatus::NotApplied(NotApplied {
                obstacles: obstacles(&demands, &shim.version, |name| shim.features.contains(name)),
                shim: shim.version.clone(),
                tokios: others,
                refusal,
            }),
        }
    }
}

fn reduced_features(demands: &[Demand]) -> Vec<(&'static str, &'static str, Vec<String>)> {
    let asked = |name: &str| {
        let by =
            demands.iter().filter(|demand| demand.features.iter().any(|feature| feature == name));
        by.map(|demand| demand.by.clone()).collect::<Vec<_>>()
    };
    let all = REDUCED_FEATURES.iter().map(|(name, why)| (*name, *why, asked(name)));
    all.filter(|(.., by)| !by.is_empty()).collect()
}

fn obstacles(
    demands: &[Demand],
    shim: &semver::Version,
    has_feature: impl Fn(&str) -> bool,
) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    for demand in demands {
        let requirement = semver::VersionReq::parse(&demand.requirement);
        if requirement.is_ok_and(|requirement| !requirement.matches(shim)) {
            let (by, requirement) = (demand.by.clone(), demand.requirement.clone());
            obstacles.push(Obstacle::Version { by, requirement });
        }
        for feature in demand.features.iter().filter(|feature| !has_feature(feature)) {
            obstacles.push(Obstacle::Feature { by: demand.by.clone(), feature: feature.clone() });
        }
    }
    obstacles
}

impl fmt::Display for PatchStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchStatus::Applied(applied) => applied.fmt(f),
            PatchStatus::NotApplied(not_applied) => not_applied.fmt(f),
        }
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wakeful is in the place of tokio {}", self.shim.version)?;
        for other in &self.others {
            write!(f, "; tokio {} beside it stays what it is", other.version)?;
        }
        Ok(())
    }
}

impl fmt::Display for NotApplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tokios.is_empty() && self.obstacles.is_empty() {
            return f.write_str(
                "this project does not depend on tokio, so there is nothing to put wakeful in the place of",
            );
        }
        write!(
            f,
            "wakeful does not replace tokio: cargo would build the real one. Nothing was built."
        )?;
        for tokio in &self.tokios {
            let place = match tokio.source.as_deref() {
                None => format!("the folder {}", tokio.manifest.display()),
                Some(source) if source.starts_with("registry+") => "the registry".to_owned(),
                Some(source) => source.to_owned(),
            };
            write!(f, "\n  chosen: tokio {} from {place}", tokio.version)?;
        }
        for obstacle in &self.obstacles {
            match obstacle {
                Obstacle::Version { by, requirement } => write!(
                    f,
                    "\n  reason: {by} requires tokio `{requirement}`, but wakeful replaces {}",
                    self.shim
                )?,
                Obstacle::Feature { by, feature } => write!(
                    f,
                    "\n  reason: {by} requires the feature `{feature}` of tokio, which wakeful does not have"
                )?,
            }
        }
        if let Some(refusal) = &self.refusal {
            write!(f, "\n  cargo says:\n    {}", refusal.replace('\n', "\n    "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(requirement: &str, features: &[&str]) -> Demand {
        let features = features.iter().map(|feature| (*feature).to_owned()).collect();
        Demand { by: "helper 1.0.0".into(), requirement: requirement.into(), features }
    }

    #[test]
    fn packages_that_prevent_the_replacement_are_named() {
        let demands = [
            demand("^1.20", &["rt", "net"]),
            demand("=1.40.0", &["rt"]),
            demand("^0.2", &[]),
            demand("^1", &["rt", "telepathy"]),
        ];
        let by = || "helper 1.0.0".to_owned();
        let found =
            obstacles(&demands, &"1.54.1".parse().unwrap(), |name| ["rt", "net"].contains(&name));
        let expected = [
            Obstacle::Version { by: by(), requirement: "=1.40.0".into() },
            Obstacle::Version { by: by(), requirement: "^0.2".into() },
            Obstacle::Feature { by: by(), feature: "telepathy".into() },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn reduced_features_are_named() {
        let found = reduced_features(&[demand("^1", &["rt", "tracing"]), demand("^1", &["rt"])]);
        let names: Vec<_> = found.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, ["tracing"]);
    }
}
