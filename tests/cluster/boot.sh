#!/bin/sh
# First process of a test host: builds the host's own view of the machine and becomes its sshd.
# Usage, in the host's new namespaces: boot.sh STATE NAME [PATH-TO-SHOW]...
set -eu
state=$1 name=$2
shift 2

# /proc is still the machine's own here, so that this is our process id as seen from outside.
read -r pid _ </proc/self/stat
echo "$pid" >"$state/pid"
echo "$name" >/proc/sys/kernel/hostname

mount -t overlay -o "lowerdir=/,upperdir=$state/disk,workdir=$state/work" overlay "$state/root"
cd "$state/root"
mount -t sysfs sysfs sys
# The device nodes are the machine's; terminals and shared memory are the host's own.
mount --bind /dev dev
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
mkdir run/sshd
# What the overlay does not show because it is a mount of its own (a Python in /opt, say); nothing is written there.
for shown; do
    mkdir -p "./$shown"
    mount -o bind,ro "$shown" "./$shown"
done
mount -t proc proc proc
mount --bind "$state/boot_id" proc/sys/kernel/random/boot_id

pivot_root . .
umount -l .
cd /
exec /usr/sbin/sshd -D -e -f /etc/ssh/sshd_config
