# bash completion of brimctl(1)
_brimctl() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= i
	local own="-s --token-file --ca-file --json -h --help" words=

	case $before in
	--token-file|--ca-file)
		COMPREPLY=($(compgen -f -- "$word"))
		return
		;;
	-s|--of|--site|--host|--prefix|--tag|--url|--limit|--interval|--count)
		return
		;;
	esac
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-s|--token-file|--ca-file) i=$((i + 1)) ;;
		-*) ;;
		*) command=${COMP_WORDS[i]}; break ;;
		esac
	done
	case $command in
	"") words="purge inspect objects status store top config reload drain resume" ;;
	purge) words="--soft --dry-run --url --prefix --tag --of --host --site --all -" ;;
	objects) words="--site --prefix --limit" ;;
	top) words="--interval --count" ;;
	reload) words="--dry-run" ;;
	config)
		case $before in
		config) words="show check diff" ;;
		check|diff) COMPREPLY=($(compgen -f -- "$word")); return ;;
		esac
		;;
	esac
	COMPREPLY=($(compgen -W "$words $own" -- "$word"))
}
complete -F _brimctl brimctl
