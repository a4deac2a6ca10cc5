//! What a job clones: a repository's URL and a ref, each parsed once. The policy judges these parts, and the cloner
//! is given a URL that is put together from the same parts: what was judged is what is fetched.

mod reference;
#[cfg(test)]
mod tests;
mod url;

pub use reference::GitRef;
pub use url::{CloneHost, RepoUrl};

use crate::plan::{ImageReference, JobExtras, PlannedFile, Rights, keep, path, quote};
use crate::refusal::Reason;
use crate::schema::CloneRequest;

/// Where a clone goes that names no place, as with the reference server.
const DEFAULT_SUBDIR: &str = "repo";

/// What will be cloned, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClonePlan {
    /// The repository.
    pub url: RepoUrl,
    /// What of it.
    pub reference: GitRef,
    /// Where to, relative to the work directory.
    pub subdir: String,
    /// What the URLs of its submodules must begin with; empty when none are fetched. All on the same host.
    pub submodules: Vec<String>,
    /// Image of the cloner.
    pub image: ImageReference,
    /// Secret with a token for each host.
    pub secret: String,
}

/// Checks a call's `clone`.
///
/// # Errors
/// The reasons: `clone.unavailable`, `clone.url`, `clone.ref`, `clone.subdir`, `clone.image`.
pub(in crate::plan) fn plan(
    request: &CloneRequest,
    extras: &JobExtras,
    rights: &Rights,
) -> Result<ClonePlan, Vec<Reason>> {
    let mut reasons = Vec::new();
    let cloner = keep(cloner(extras).map_err(Some), &mut reasons);
    let url = request.repo_url.parse::<RepoUrl>().map_err(|fault| {
        Some(Reason::new(
            "clone.url",
            format!("repository URL {} {fault}", quote(&request.repo_url)),
            "/clone/repo_url",
            "write the https URL without credentials, for example `https://github.com/owner/repository`",
        ))
    });
    let url = keep(url, &mut reasons);
    let reference = request.reference.parse::<GitRef>().map_err(|fault| {
        Some(Reason::new(
            "clone.ref",
            format!("ref {} {fault}", quote(&request.reference)),
            "/clone/ref",
            "write a branch, a tag or the full id of a commit, for example `main`",
        ))
    });
    let reference = keep(reference, &mut reasons);
    let subdir = keep(subdir(request.subdir.as_deref()).map_err(Some), &mut reasons);
    let (Some((image, secret)), Some(url), Some(reference), Some(subdir)) = (cloner, url, reference, subdir)
    else {
        return Err(reasons);
    };
    let same_host = rights.submodules.iter().filter(|(host, _)| host == url.host());
    let submodules = same_host.map(|(host, prefix)| format!("{}{prefix}", host.origin())).collect();
    Ok(ClonePlan { url, reference, subdir, submodules, image, secret })
}

/// The operator's image and Secret. Cloning is on when both are set.
fn cloner(extras: &JobExtras) -> Result<(ImageReference, String), Reason> {
    let (Some(image), Some(secret)) = (&extras.clone_image, &extras.clone_secret) else {
        let missing = match (&extras.clone_image, &extras.clone_secret) {
            (None, None) => "MCP_K8S_CLONE_IMAGE and MCP_K8S_CLONE_SECRET are",
            (None, Some(_)) => "MCP_K8S_CLONE_IMAGE is",
            (Some(_), _) => "MCP_K8S_CLONE_SECRET is",
        };
        return Err(Reason::new(
            "clone.unavailable",
            format!("this server cannot clone: {missing} not set"),
            "/clone",
            "leave `clone` out and send what you need as `files`, or ask the operator to configure cloning",
        ));
    };
    let image = image.parse().map_err(|fault: Reason| {
        Reason::new(
            "clone.image",
            format!("the configured cloner's {}", fault.message),
            "",
            "the operator must correct MCP_K8S_CLONE_IMAGE",
        )
    })?;
    Ok((image, secret.clone()))
}

/// An input file where the clone's directory is to be, or has to lie in one. Files inside the clone are placed over it.
pub(in crate::plan) fn conflicts(clone: &ClonePlan, files: &[PlannedFile]) -> Vec<Reason> {
    let blocks = |file: &&PlannedFile| {
        clone.subdir == file.path
            || clone.subdir.strip_prefix(&file.path).is_some_and(|rest| rest.starts_with('/'))
    };
    let blocking = files.iter().find(blocks).map(|file| {
        Reason::new(
            "clone.subdir",
            format!(
                "clone directory {} needs a directory where {} is a file",
                quote(&clone.subdir),
                quote(&file.path)
            ),
            "/clone/subdir",
            "give the clone or the file another path",
        )
    });
    blocking.into_iter().collect()
}

fn subdir(requested: Option<&str>) -> Result<String, Reason> {
    let subdir = requested.unwrap_or(DEFAULT_SUBDIR);
    let fault = match path::relative(subdir) {
        Err(what) => what,
        // git takes a folder of this name for its own data, whatever is in it.
        Ok(()) if subdir.split('/').any(|part| part.eq_ignore_ascii_case(".git")) => "has a `.git` component",
        // As for a work directory, of which it is a part.
        Ok(()) if !subdir.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._+@-".contains(&b)) => {
            "has a character other than letters, digits and `/`, `.`, `_`, `+`, `@`, `-`"
        }
        Ok(()) if subdir.split('/').any(|part| part.starts_with('-')) => {
            "has a component that begins with `-`"
        }
        Ok(()) => return Ok(subdir.to_owned()),
    };
    Err(Reason::new(
        "clone.subdir",
        format!("clone directory {} {fault}", quote(subdir)),
        "/clone/subdir",
        "write a path relative to the work directory, for example `repo`",
    ))
}
