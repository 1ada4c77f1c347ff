//! Sources of an NGINX that runs Lua: with the module, LuaJIT, and the Lua library that the module needs to start.
//!
//! Not here: the scripts (`lua`).

use std::path::{Path, PathBuf};

use bakeoff_install::{Libraries, Recipe, Shape, Source, SourceBuild};

/// Recipe of NGINX with Lua. An NGINX on `PATH` suffices if its modules are where distributions or OpenResty put them.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "access-gateway",
    shape: Shape::Accompanied {
        executable: "nginx",
        version_args: &["-v"],
        lacks: |program| around(program).err().map(|lacking| lacking.to_string()),
    },
    sources: &[Source::Debian {
        packages: PACKAGES,
        files: FILES,
        series: &[],
        libraries: Libraries::Unpacked,
    }],
};

/// Recipe of NGINX with Lua and Tarantool's nginx_upstream_module, which no distribution packages.
pub(crate) const WITH_UPSTREAM_MODULE: Recipe = Recipe {
    system: "nginx-upstream-module",
    shape: Shape::Accompanied {
        executable: "nginx",
        version_args: &["-v"],
        lacks: |program| match around(program) {
            Err(lacking) => Some(lacking.to_string()),
            Ok(around) if around.upstream_module.is_none() => {
                Some(format!("has no `{UPSTREAM_MODULE}` next to its other modules"))
            }
            Ok(_) => None,
        },
    },
    sources: &[Source::DebianAndBuild {
        packages: PACKAGES,
        files: FILES,
        build: SourceBuild {
            name: "nginx_upstream_module",
            version: "2.7.2",
            // The last commit; the last tag is 2.7.1.
            archive: "https://github.com/tarantool/nginx_upstream_module/archive/\
                      aeb8696850f2f85db7df825aaa2adbe77d6aac8e.tar.gz",
            sha256: "590a3accdb95da89d353edc4837b79bd0d4b6097eb2a12ef09f9d3a1c557a036",
            packages: &[
                "nginx-dev",
                "libmsgpuck-dev",
                "libpcre2-dev",
                "libssl-dev",
                "libyajl-dev",
                "zlib1g-dev",
            ],
            runs_with: &["libyajl2"],
            tools: &["cc", "make"],
            script: include_str!("build_upstream_module.sh"),
            takes: "about 20 seconds",
        },
    }],
};

const PACKAGES: &[&str] = &[
    "nginx",
    "libnginx-mod-http-ndk",
    "libnginx-mod-http-lua",
    "lua-resty-core",
    "lua-resty-lrucache",
];
const FILES: &[&str] = &[
    "usr/sbin/nginx",
    "usr/lib/nginx/modules/ndk_http_module.so",
    "usr/lib/nginx/modules/ngx_http_lua_module.so",
    "usr/share/lua/5.1/resty/core.lua",
    "usr/share/lua/5.1/resty/lrucache.lua",
];

/// Modules and library around an NGINX that runs Lua.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LuaModules {
    /// Modules in the order to load them. Empty if they are built in.
    pub(super) modules: Vec<PathBuf>,
    /// Folder of `resty/core.lua`.
    pub(super) library: PathBuf,
    /// Tarantool's module, if it is next to the others.
    pub(super) upstream_module: Option<PathBuf>,
}

/// Missing part of an NGINX. The message follows the program's path.
#[derive(Debug, thiserror::Error)]
pub(super) enum MissingPart {
    /// The path has too few parent folders for the layout of a distribution.
    #[error("has no Lua module around it")]
    Tree,
    /// The Lua module is missing at this path.
    #[error("has no Lua module: there is no `{}`", .0.display())]
    Module(PathBuf),
    #[error("has a Lua module, but not its library `resty.core`")]
    Library,
}

/// Modules of distributions, in the order to load them.
const MODULES: [&str; 2] = ["ndk_http_module.so", "ngx_http_lua_module.so"];
const UPSTREAM_MODULE: &str = "ngx_http_tnt_module.so";
const LIBRARY: &str = "resty/core.lua";

/// Finds the modules and the library around an NGINX.
pub(super) fn around(program: &Path) -> Result<LuaModules, MissingPart> {
    // OpenResty puts a link on `PATH`.
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    // The path is `ROOT/usr/sbin/nginx`, or OpenResty's `ROOT/nginx/sbin/nginx`.
    let Some(root) = real.ancestors().nth(3) else {
        return Err(MissingPart::Tree);
    };
    let built_in = root.join("lualib");
    if built_in.join(LIBRARY).is_file() {
        return Ok(LuaModules { modules: Vec::new(), library: built_in, upstream_module: None });
    }
    let folders = ["usr/lib/nginx/modules", "usr/lib64/nginx/modules"];
    let modules = |folder: &str| MODULES.map(|name| root.join(folder).join(name)).to_vec();
    let mut all = folders.map(modules).into_iter();
    let modules = all.find(|modules| modules.iter().all(|module| module.is_file()));
    let Some(modules) = modules else {
        let wanted = root.join(folders[0]).join(MODULES[1]);
        return Err(MissingPart::Module(wanted));
    };
    let libraries = ["usr/share/lua/5.1", "usr/share/luajit-2.1", "usr/lib/lua/5.1"];
    let library = libraries.map(|folder| root.join(folder)).into_iter();
    let mut library = library.filter(|folder| folder.join(LIBRARY).is_file());
    let library = library.next().ok_or(MissingPart::Library)?;
    let upstream_module = Some(modules[0].with_file_name(UPSTREAM_MODULE));
    let upstream_module = upstream_module.filter(|module| module.is_file());
    Ok(LuaModules { modules, library, upstream_module })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        dir
    }

    #[test]
    fn error_names_the_missing_module() {
        let dir = tree(&["usr/sbin/nginx", "usr/lib/nginx/modules/ndk_http_module.so"]);
        let root = dir.path().canonicalize().unwrap();
        let program = root.join("usr/sbin/nginx");
        let lacking = around(&program).unwrap_err().to_string();
        assert!(lacking.ends_with("usr/lib/nginx/modules/ngx_http_lua_module.so`"), "{lacking}");
        let module = root.join("usr/lib/nginx/modules/ngx_http_lua_module.so");
        fs::write(&module, "").unwrap();
        let lacking = around(&program).unwrap_err().to_string();
        assert!(lacking.contains("`resty.core`"), "{lacking}");
        let library = root.join("usr/share/lua/5.1");
        fs::create_dir_all(library.join("resty")).unwrap();
        fs::write(library.join("resty/core.lua"), "").unwrap();
        let found = around(&program).unwrap();
        assert_eq!(found.modules[1], module);
        assert_eq!(found.library, library);
        assert_eq!(found.upstream_module, None);
        let upstream = root.join("usr/lib/nginx/modules/ngx_http_tnt_module.so");
        fs::write(&upstream, "").unwrap();
        assert_eq!(around(&program).unwrap().upstream_module, Some(upstream));
    }

    #[test]
    fn openresty_has_built_in_modules() {
        let dir = tree(&["nginx/sbin/nginx", "lualib/resty/core.lua"]);
        let root = dir.path().canonicalize().unwrap();
        let link = root.join("openresty");
        std::os::unix::fs::symlink("nginx/sbin/nginx", &link).unwrap();
        let found = around(&link).unwrap();
        let built_in =
            LuaModules { modules: Vec::new(), library: root.join("lualib"), upstream_module: None };
        assert_eq!(found, built_in);
        assert!(around(Path::new("nginx")).is_err());
    }
}
