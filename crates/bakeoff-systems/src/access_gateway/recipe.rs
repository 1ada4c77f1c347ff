//! Where an NGINX comes from that runs Lua: its module, LuaJIT, and the Lua library without which the
//! module does not start.
//!
//! Not here: which scripts it is to run (`lua`).

use std::fmt;
use std::path::{Path, PathBuf};

use bakeoff_install::{Libraries, Recipe, Shape, Source};

/// How NGINX with Lua can be had. One on `PATH` will do where its modules are around it, as packages of
/// distributions and OpenResty place them.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "access-gateway",
    shape: Shape::Accompanied {
        executable: "nginx",
        version_args: &["-v"],
        lacks: |program| around(program).err().map(|lacking| lacking.to_string()),
    },
    sources: &[Source::Debian {
        packages: &[
            "nginx",
            "libnginx-mod-http-ndk",
            "libnginx-mod-http-lua",
            "lua-resty-core",
            "lua-resty-lrucache",
        ],
        files: &[
            "usr/sbin/nginx",
            "usr/lib/nginx/modules/ndk_http_module.so",
            "usr/lib/nginx/modules/ngx_http_lua_module.so",
            "usr/share/lua/5.1/resty/core.lua",
            "usr/share/lua/5.1/resty/lrucache.lua",
        ],
        series: &[],
        libraries: Libraries::Unpacked,
    }],
};

/// The modules and the library around an NGINX that runs Lua.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Around {
    /// To load, in this order; none where they are built in.
    pub(super) modules: Vec<PathBuf>,
    /// The folder of `resty/core.lua`.
    pub(super) library: PathBuf,
}

/// A part of NGINX that a program was installed without.
#[derive(Debug)]
pub(super) enum Lacking {
    /// The folders around a program that distributions make.
    Tree,
    /// The Lua module, by its file.
    Module(PathBuf),
    /// The module's library.
    Library,
}

impl fmt::Display for Lacking {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree => to.write_str("has no Lua module around it"),
            Self::Module(path) => {
                write!(to, "has no Lua module: there is no `{}`", path.display())
            }
            Self::Library => to.write_str("has a Lua module, and not its library `resty.core`"),
        }
    }
}

impl std::error::Error for Lacking {}

/// The modules of distributions, in the order in which they are loaded.
const MODULES: [&str; 2] = ["ndk_http_module.so", "ngx_http_lua_module.so"];
const LIBRARY: &str = "resty/core.lua";

/// Finds it; an error says what is missing, ready to stand after the program's name.
pub(super) fn around(program: &Path) -> Result<Around, Lacking> {
    // OpenResty's is a link on `PATH`.
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    // `ROOT/usr/sbin/nginx`, or OpenResty's `ROOT/nginx/sbin/nginx`.
    let Some(root) = real.ancestors().nth(3) else {
        return Err(Lacking::Tree);
    };
    let built_in = root.join("lualib");
    if built_in.join(LIBRARY).is_file() {
        return Ok(Around { modules: Vec::new(), library: built_in });
    }
    let folders = ["usr/lib/nginx/modules", "usr/lib64/nginx/modules"];
    let modules = |folder: &str| MODULES.map(|name| root.join(folder).join(name)).to_vec();
    let mut all = folders.map(modules).into_iter();
    let modules = all.find(|modules| modules.iter().all(|module| module.is_file()));
    let Some(modules) = modules else {
        let wanted = root.join(folders[0]).join(MODULES[1]);
        return Err(Lacking::Module(wanted));
    };
    let libraries = ["usr/share/lua/5.1", "usr/share/luajit-2.1", "usr/lib/lua/5.1"];
    let library = libraries.map(|folder| root.join(folder)).into_iter();
    let mut library = library.filter(|folder| folder.join(LIBRARY).is_file());
    let library = library.next().ok_or(Lacking::Library)?;
    Ok(Around { modules, library })
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
    fn missing_modules_are_named() {
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
    }

    #[test]
    fn openresty_has_it_built_in() {
        let dir = tree(&["nginx/sbin/nginx", "lualib/resty/core.lua"]);
        let root = dir.path().canonicalize().unwrap();
        let link = root.join("openresty");
        std::os::unix::fs::symlink("nginx/sbin/nginx", &link).unwrap();
        let found = around(&link).unwrap();
        assert_eq!(found, Around { modules: Vec::new(), library: root.join("lualib") });
        assert!(around(Path::new("nginx")).is_err());
    }
}
