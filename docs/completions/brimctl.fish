# fish completion of brimctl(1)
set -l commands purge inspect objects status store top config reload drain resume
set -l none "not __fish_seen_subcommand_from $commands"

complete -c brimctl -f
complete -c brimctl -s s -x -d 'address of the admin API'
complete -c brimctl -l token-file -r -F -d 'who asks, over TCP'
complete -c brimctl -l ca-file -r -F -d 'whom to trust, with https'
complete -c brimctl -l json -d "the node's answers as they are"
complete -c brimctl -s h -l help -d 'help'

complete -c brimctl -n $none -a purge -d 'forget URLs, prefixes, tags, hosts, sites, everything'
complete -c brimctl -n $none -a inspect -d 'why a URL hits or misses'
complete -c brimctl -n $none -a objects -d 'what is stored'
complete -c brimctl -n $none -a status -d 'processes, stores, the last reload'
complete -c brimctl -n $none -a store -d 'more about the stores'
complete -c brimctl -n $none -a top -d 'what goes on now'
complete -c brimctl -n $none -a config -d 'show, check or compare the configuration'
complete -c brimctl -n $none -a reload -d 'read the configuration again'
complete -c brimctl -n $none -a drain -d 'take no connections'
complete -c brimctl -n $none -a resume -d 'take them again'

set -l purge '__fish_seen_subcommand_from purge'
complete -c brimctl -n $purge -l soft -d 'make stale'
complete -c brimctl -n $purge -l dry-run -d 'count only'
complete -c brimctl -n $purge -l url -d 'URLs follow'
complete -c brimctl -n $purge -l prefix -d 'prefixes follow'
complete -c brimctl -n $purge -l tag -d 'tags follow'
complete -c brimctl -n $purge -l of -x -d 'whose tags'
complete -c brimctl -n $purge -l host -d 'hosts follow'
complete -c brimctl -n $purge -l site -d 'sites follow'
complete -c brimctl -n $purge -l all -d 'everything'

complete -c brimctl -n '__fish_seen_subcommand_from objects' -l site -x -d 'of this site'
complete -c brimctl -n '__fish_seen_subcommand_from objects' -l prefix -x -d 'URLs that begin so'
complete -c brimctl -n '__fish_seen_subcommand_from objects' -l limit -x -d 'at most'
complete -c brimctl -n '__fish_seen_subcommand_from top' -l interval -x -d 'seconds'
complete -c brimctl -n '__fish_seen_subcommand_from top' -l count -x -d 'how often'
complete -c brimctl -n '__fish_seen_subcommand_from reload' -l dry-run -d 'only try'
complete -c brimctl -n '__fish_seen_subcommand_from config; and not __fish_seen_subcommand_from show check diff' -a 'show check diff'
complete -c brimctl -n '__fish_seen_subcommand_from check diff' -F
