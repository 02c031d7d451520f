//! Whether the face is in tokio's place, and if not, who stands in the way.

use crate::face::WITHOUT_MEANING;
use crate::project::{Demand, Project, Tokio, demands, tokios};
use serde_json::Value;
use std::fmt;

pub enum Verdict {
    /// The face is there, and nothing else of its major version.
    Taken(Taken),
    NotTaken(NotTaken),
}

/// The face is in tokio's place.
pub struct Taken {
    face: Tokio,
    /// Other tokios beside it, of other major versions: they stay what they are.
    others: Vec<Tokio>,
    /// Features that were asked for and mean nothing, and by whom.
    pub without_meaning: Vec<(&'static str, &'static str, Vec<String>)>,
}

/// The face is not in tokio's place.
pub struct NotTaken {
    face: semver::Version,
    tokios: Vec<Tokio>,
    obstacles: Vec<Obstacle>,
    /// What cargo said when it was asked to take the face's version.
    refusal: Option<String>,
}

/// Who stands in the way.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    Version { by: String, requirement: String },
    Feature { by: String, feature: String },
}

impl Verdict {
    pub fn of(project: &Project, metadata: &Value, refusal: Option<String>) -> Self {
        let face = project.face;
        let (demands, tokios) = (demands(metadata), tokios(metadata));
        let is_face = |tokio: &Tokio| {
            let folder = tokio.manifest.parent().and_then(|folder| folder.canonicalize().ok());
            tokio.source.is_none() && folder.as_ref() == Some(&face.folder)
        };
        let (mut taken, others): (Vec<Tokio>, Vec<Tokio>) = tokios.into_iter().partition(is_face);
        let has_rival = others.iter().any(|tokio| tokio.version.major == face.version.major);
        match taken.pop() {
            Some(face) if !has_rival => {
                let without_meaning = without_meaning(&demands);
                Verdict::Taken(Taken { face, others, without_meaning })
            }
            _ => Verdict::NotTaken(NotTaken {
                obstacles: obstacles(&demands, &face.version, |name| face.features.contains(name)),
                face: face.version.clone(),
                tokios: others,
                refusal,
            }),
        }
    }
}

fn without_meaning(demands: &[Demand]) -> Vec<(&'static str, &'static str, Vec<String>)> {
    let asked = |name: &str| {
        let by =
            demands.iter().filter(|demand| demand.features.iter().any(|feature| feature == name));
        by.map(|demand| demand.by.clone()).collect::<Vec<_>>()
    };
    let all = WITHOUT_MEANING.iter().map(|(name, why)| (*name, *why, asked(name)));
    all.filter(|(.., by)| !by.is_empty()).collect()
}

fn obstacles(
    demands: &[Demand],
    face: &semver::Version,
    has_feature: impl Fn(&str) -> bool,
) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    for demand in demands {
        let requirement = semver::VersionReq::parse(&demand.requirement);
        if requirement.is_ok_and(|requirement| !requirement.matches(face)) {
            let (by, requirement) = (demand.by.clone(), demand.requirement.clone());
            obstacles.push(Obstacle::Version { by, requirement });
        }
        for feature in demand.features.iter().filter(|feature| !has_feature(feature)) {
            obstacles.push(Obstacle::Feature { by: demand.by.clone(), feature: feature.clone() });
        }
    }
    obstacles
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Taken(taken) => taken.fmt(f),
            Verdict::NotTaken(not_taken) => not_taken.fmt(f),
        }
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wakeful is in the place of tokio {}", self.face.version)?;
        for other in &self.others {
            write!(f, "; tokio {} beside it stays what it is", other.version)?;
        }
        Ok(())
    }
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tokios.is_empty() && self.obstacles.is_empty() {
            return f.write_str(
                "this project does not depend on tokio, so there is nothing to put wakeful in the place of",
            );
        }
        write!(
            f,
            "wakeful is NOT in the place of tokio: cargo would build the real one. Nothing was built."
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
                    "\n  in the way: {by} asks for tokio `{requirement}`, and wakeful stands in for {}",
                    self.face
                )?,
                Obstacle::Feature { by, feature } => write!(
                    f,
                    "\n  in the way: {by} asks for the feature `{feature}` of tokio, which wakeful does not have"
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
        Demand { by: "somebody 1.0.0".into(), requirement: requirement.into(), features }
    }

    #[test]
    fn who_asks_for_what_is_not_there_is_named() {
        let demands = [
            demand("^1.20", &["rt", "net"]),
            demand("=1.40.0", &["rt"]),
            demand("^0.2", &[]),
            demand("^1", &["rt", "telepathy"]),
        ];
        let by = || "somebody 1.0.0".to_owned();
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
    fn features_without_a_meaning_are_known() {
        let found = without_meaning(&[demand("^1", &["rt", "tracing"]), demand("^1", &["rt"])]);
        let names: Vec<_> = found.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, ["tracing"]);
    }
}
