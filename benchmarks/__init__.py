"""Speed and quality beside other libraries; a package, because a peer installs one of that name."""
