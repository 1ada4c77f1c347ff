# Builds nginx_upstream_module for Debian's NGINX. Debian's libmsgpuck.a is not position-independent, so the module gets
# its own. It loads the shared yajl next to NGINX.
cd nginx_upstream_module-*
source=$PWD
cp -r "$DEVELOPMENT/usr/share/nginx/src" ../nginx
cd ../nginx
triplet=$(basename "$(dirname "$(dirname "$(find "$DEVELOPMENT/usr/lib" -name yajl.pc)")")")
headers="-I$DEVELOPMENT/usr/include -I$DEVELOPMENT/usr/include/$triplet"
mkdir static
printf '#define MP_SOURCE 1\n#include <msgpuck.h>\n' >static/msgpuck.c
cc -O2 -fPIC $headers -c static/msgpuck.c -o static/msgpuck.o
ar rcs static/libmsgpuck.a static/msgpuck.o
ln -s "$TREE/usr/lib/$triplet/libyajl.so.2" static/libyajl.so
# Debian's flags make the module fit its NGINX. They are a bash array.
sed -n 's/^NGX_CONF_FLAGS=( \(.*\) )$/\1/p' conf_flags | tr ' ' '\n' >flags
set --
while read -r flag; do set -- "$@" "$flag"; done <flags
./configure "$@" \
  --with-cc-opt="-O2 -Wno-error $headers" \
  --with-ld-opt="-L$PWD/static -L$DEVELOPMENT/usr/lib/$triplet" \
  --add-dynamic-module="$source"
make -f objs/Makefile modules
cp objs/ngx_http_tnt_module.so "$TREE/usr/lib/nginx/modules/"
