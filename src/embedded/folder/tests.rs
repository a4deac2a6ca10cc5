//! Whose the folders are, what is swept, and how a tree is removed.

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn left_behind(parent: &Path) -> PathBuf {
    let home = Home::make(parent, None).unwrap();
    let path = home.path.clone();
    fs::write(path.join("input"), "secret").unwrap();
    // What a kill does: the lock goes, the folder stays.
    drop(File::open(path.join(LOCK)).unwrap());
    let Home { _lock: lock, .. } = &home;
    lock.unlock().unwrap();
    std::mem::forget(home);
    path
}

#[test]
fn nobody_else_may_enter() {
    let parent = tempfile::tempdir().unwrap();
    let home = Home::make(parent.path(), None).unwrap();
    let pod = Folder::make(home.path(), "pod-", None).unwrap();
    let volumes = pod.path().join("volumes");
    make_private(&volumes, None).unwrap();
    for path in [home.path(), pod.path(), &volumes] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    if geteuid().is_root() {
        let home = Home::make(parent.path(), Some(65532)).unwrap();
        let about = fs::metadata(home.path()).unwrap();
        assert_eq!((about.uid(), about.gid(), mode(home.path())), (0, 65532, 0o710));
    }
}

#[test]
fn a_sweep_takes_what_was_left_behind_and_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let gone = left_behind(parent.path());
    let living = Home::make(parent.path(), None).unwrap();
    let others: Vec<PathBuf> =
        ["kubepermit-embedded-a", "kubepermit-embedded-backup", "kubepermit-abcdef", "other"]
            .iter()
            .map(|name| {
                let path = parent.path().join(name);
                fs::create_dir(&path).unwrap();
                fs::write(path.join("file"), "").unwrap();
                path
            })
            .collect();
    // Someone else may have put anything into it.
    let open = left_behind(parent.path());
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let link = parent.path().join("kubepermit-embedded-link00");
    std::os::unix::fs::symlink(&open, &link).unwrap();
    sweep(parent.path());
    assert!(!gone.exists());
    for kept in others.iter().chain([&open, &link]) {
        assert!(kept.exists(), "{}", kept.display());
    }
    assert!(living.path().join(LOCK).exists());
    let path = living.path().to_owned();
    drop(living);
    assert!(!path.exists());
}

#[test]
fn another_users_folder_is_left_alone() {
    if !geteuid().is_root() {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let theirs = left_behind(parent.path());
    chown(&theirs, Some(12345), None).unwrap();
    sweep(parent.path());
    assert!(theirs.exists());
}

#[test]
fn a_removal_that_broke_off_is_taken_up_again() {
    let parent = tempfile::tempdir().unwrap();
    let path = left_behind(parent.path());
    fs::remove_file(path.join("input")).unwrap();
    sweep(parent.path());
    assert!(!path.exists());
}

/// Deeper than the stack, the table of descriptors and the longest path. As root, modes alone would stop nobody.
#[test]
fn a_deep_or_closed_tree_goes_too() {
    // Where there is memory for it: disks take their time for so many folders.
    let parent = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let folder = Folder::make(parent.path(), "pod-", None).unwrap();
    let script = "import os, sys\nos.chdir(sys.argv[1])\nos.makedirs('closed/in'); open('closed/in/f', 'w').close()\n\
                  os.chmod('closed/in', 0); os.chmod('closed', 0)\n\
                  for _ in range(30000): os.mkdir('d'); os.chdir('d')\nopen('file', 'w').close()";
    let made =
        std::process::Command::new("python3").args(["-c", script]).arg(folder.path()).status().unwrap();
    assert!(made.success());
    let path = folder.path().to_owned();
    drop(folder);
    assert!(!path.exists());
}
